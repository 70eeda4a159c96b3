"""Bodies of answers as JSON values: read in both dialects, and compared."""

from __future__ import annotations

import json
import re
from typing import Any


def same_json(one: str | None, other: str | None, *, ordered: bool) -> bool:
    """Return whether two bodies say the same; without `ordered`, lists are compared as sets of their elements."""
    if one is None or other is None:
        return one == other
    try:
        values = read_json(one), read_json(other)
    except ValueError:
        return False
    return bool(values[0] == values[1] if ordered else _canonical(values[0]) == _canonical(values[1]))


def read_json(text: str) -> Any:  # any JSON value
    """Return the value of a body, RocketMQ's unquoted integer keys included. Raises ValueError for anything else."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError:
        return json.loads(_quoted(text))


_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,])(-?\d+):')


def _quoted(text: str) -> str:
    """Quote integer keys outside of strings."""
    return _STRING_OR_KEY.sub(lambda m: m[0] if m[2] is None else f'{m[1]}"{m[2]}":', text)


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted(json.dumps(_canonical(member), sort_keys=True) for member in value)
    return value

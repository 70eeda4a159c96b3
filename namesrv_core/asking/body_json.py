"""Bodies of answers as JSON values: read in both dialects, and compared."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

SHORT_BODY = 8_192
"""Bodies up to so many characters are kept as they were read, the last `KEPT_BODIES` of them: many answers say the same."""
KEPT_BODIES = 2_048
NULL_KEY = "\ud800"
"""The key `null`, as a text that no UTF-8 holds: a cluster or a broker without a name."""


def same_json(one: str | None, other: str | None, *, ordered: bool) -> bool:
    """Return whether two bodies say the same; without `ordered`, lists are compared as sets of their elements."""
    if one is None or other is None:
        return one == other
    unordered = _canonical_short if max(len(one), len(other)) <= SHORT_BODY else _canonical_body
    read = read_json if ordered else unordered
    try:
        return bool(read(one) == read(other))
    except ValueError:
        return False


def read_json(text: str) -> Any:  # any JSON value
    """Return the value of a body, RocketMQ's unquoted keys included: integers, and null as `NULL_KEY`.

    Raises ValueError for anything else.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError:
        return json.loads(_quoted(text))


_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,])(-?\d+|null):')
_KEY = re.compile(r"([{,])(-?\d+):")
_NAMED = {"null": NULL_KEY}


def _quoted(text: str) -> str:
    """Quote keys outside of strings."""
    if "\\" in text:
        return _STRING_OR_KEY.sub(lambda m: m[0] if m[2] is None else f'{m[1]}"{_NAMED.get(m[2], m[2])}":', text)
    parts = text.split('"')  # every second one lies outside
    parts[::2] = [
        _KEY.sub(r'\1"\2":', part).replace("null:", f'"{NULL_KEY}":') if ":" in part and len(part) > 2 else part
        for part in parts[::2]
    ]
    return '"'.join(parts)


def _canonical_body(text: str) -> Any:  # any JSON value
    return _canonical(read_json(text))


_canonical_short = lru_cache(KEPT_BODIES)(_canonical_body)


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(m) if isinstance(m, (dict, list)) else m for key, m in value.items()}
    if isinstance(value, list):
        return sorted(_TEXT_OF.encode(_canonical(member)) for member in value)
    return value


_TEXT_OF = json.JSONEncoder(sort_keys=True)

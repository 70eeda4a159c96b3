"""Bodies of answers as JSON values: read in both dialects, and compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

SHORT_BODY = 8_192
"""Bodies up to so many characters are kept as they were read, the last `KEPT_BODIES` of them: many answers say the same.

So are elements of routes, which most other answers have, too: `KEPT_ELEMENTS`.
"""
KEPT_BODIES = 2_048
KEPT_ELEMENTS = 16_384


def same_json(one: str | None, other: str | None, *, ordered: bool) -> bool:
    """Return whether two bodies say the same; without `ordered`, lists are compared as sets of their elements."""
    if one is None or other is None:
        return one == other
    unordered = _canonical_short if max(len(one), len(other)) <= SHORT_BODY else _canonical_body
    read = _read_body if ordered else unordered
    try:
        return bool(read(one) == read(other))
    except ValueError:
        return False


_GROUPS = '{"brokerDatas":[{'
_V = TypeVar("_V")
_G = TypeVar("_G")
_Q = TypeVar("_Q")


class Elements(dict[str, _V], Generic[_V]):
    """What objects that many bodies have are read as, by their text between the braces: the last `KEPT_ELEMENTS` of them."""

    def __init__(self, read: Callable[[Any], _V]) -> None:
        """`read`: of an object as JSON has it, what is kept. It is shared: do not change it."""
        super().__init__()
        self._of = read

    def __missing__(self, text: str) -> _V:
        found = self._of(read_json(f"{{{text}}}"))
        if len(self) >= KEPT_ELEMENTS:
            self.pop(next(iter(self)), None)  # threads may read, too
        self[text] = found
        return found


def route_read(
    body: str, groups: Elements[_G], queue_datas: Elements[_Q]
) -> tuple[list[_G], list[_Q], dict[str, Any]] | None:
    """Return what each element of a route's two lists is read as, and all else in it; None where it is not written as usual.

    Where each text between commas is an object by itself, all of them are the list, wherever they were cut.
    """
    head, begun, tail = body.partition('],"filterServerTable":')
    middle, listed, tail = tail.partition(',"queueDatas":[{')
    texts, ended, tail = tail.partition("}]")
    is_usual = begun and listed and ended and head.startswith(_GROUPS) and head[-1] == "}"
    if not is_usual or not (tail == "}" or (tail.startswith(',"') and tail[-1] == "}")):
        return None
    try:
        others = _values[f'"filterServerTable":{middle}']
        if tail != "}":
            others = {**others, **_values[tail[1:-1]]}
        if "brokerDatas" in others or "queueDatas" in others:  # the last one counts
            return None
        return (
            [*map(groups.__getitem__, head[len(_GROUPS) : -1].split("},{"))],
            [*map(queue_datas.__getitem__, texts.split("},{"))],
            others,
        )
    except ValueError:
        return None


def read_json(text: str) -> Any:  # any JSON value
    """Return the value of a body, RocketMQ's unquoted integer keys included. Raises ValueError for anything else."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError:
        return json.loads(_quoted(text))


_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,])(-?\d+):')
_KEY = re.compile(r"([{,])(-?\d+):")


def _quoted(text: str) -> str:
    """Quote integer keys outside of strings."""
    if "\\" in text:
        return _STRING_OR_KEY.sub(lambda m: m[0] if m[2] is None else f'{m[1]}"{m[2]}":', text)
    parts = text.split('"')  # every second one lies outside
    parts[::2] = [_KEY.sub(r'\1"\2":', part) if ":" in part and len(part) > 2 else part for part in parts[::2]]
    return '"'.join(parts)


def _read_body(text: str) -> Any:  # any JSON value
    read = route_read(text, _values, _values)
    if read is None:
        return read_json(text)
    groups, queue_datas, others = read
    return {"brokerDatas": groups, "queueDatas": queue_datas, **others}


def _canonical_body(text: str) -> Any:  # any JSON value
    read = route_read(text, _canonical_values, _canonical_values)
    if read is None:
        return _canonical(read_json(text))
    groups, queue_datas, others = read
    return {"brokerDatas": sorted(groups), "queueDatas": sorted(queue_datas), **_canonical(others)}


_canonical_short = lru_cache(KEPT_BODIES)(_canonical_body)


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(m) if isinstance(m, (dict, list)) else m for key, m in value.items()}
    if isinstance(value, list):
        return sorted(_TEXT_OF.encode(_canonical(member)) for member in value)
    return value


_TEXT_OF = json.JSONEncoder(sort_keys=True)
_values: Elements[Any] = Elements(lambda value: value)
_canonical_values = Elements(lambda value: _TEXT_OF.encode(_canonical(value)))

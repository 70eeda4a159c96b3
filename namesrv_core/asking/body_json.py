"""Bodies of answers as JSON values: read in both dialects, and compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

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
_G = TypeVar("_G")
_Q = TypeVar("_Q")


def route_read(
    body: str, group: Callable[[str], _G], queue_data: Callable[[str], _Q], rest: Callable[[str], dict[str, Any]]
) -> tuple[list[_G], list[_Q], dict[str, Any]] | None:
    """Return what is read of each element of a route's two lists, and of all else in it; None where it is not written as usual.

    Functions get the text of an object, and raise ValueError if it is none: where each text between commas is an object by itself,
    all of them are the list, wherever they were cut.
    """
    head, begun, tail = body.partition('],"filterServerTable":')
    middle, listed, tail = tail.partition(',"queueDatas":[{')
    queue_datas, ended, tail = tail.partition("}]")
    is_usual = begun and listed and ended and head.startswith(_GROUPS) and head[-1] == "}"
    if not is_usual or not (tail == "}" or tail.startswith(',"')):
        return None
    try:
        others = {**rest(f'{{"filterServerTable":{middle}}}'), **(rest(f"{{{tail[1:]}") if tail != "}" else {})}
        if "brokerDatas" in others or "queueDatas" in others:  # the last one counts
            return None
        return (
            [group(f"{{{text}}}") for text in head[len(_GROUPS) : -1].split("},{")],
            [queue_data(f"{{{text}}}") for text in queue_datas.split("},{")],
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
    read = route_read(text, read_element, read_element, read_element)
    if read is None:
        return read_json(text)
    groups, queue_datas, others = read
    return {"brokerDatas": groups, "queueDatas": queue_datas, **others}


def _canonical_body(text: str) -> Any:  # any JSON value
    read = route_read(text, _canonical_element, _canonical_element, read_element)
    if read is None:
        return _canonical(read_json(text))
    groups, queue_datas, others = read
    return {"brokerDatas": sorted(groups), "queueDatas": sorted(queue_datas), **_canonical(others)}


_canonical_short = lru_cache(KEPT_BODIES)(_canonical_body)


@lru_cache(KEPT_ELEMENTS)
def read_element(text: str) -> Any:  # any JSON value
    """Return the value of a part of a body, as `read_json`. It is shared: do not change it."""
    return read_json(text)


@lru_cache(KEPT_ELEMENTS)
def _canonical_element(text: str) -> str:
    return _TEXT_OF.encode(_canonical(read_json(text)))


def _canonical(value: Any) -> Any:  # any JSON value
    if isinstance(value, dict):
        return {key: _canonical(m) if isinstance(m, (dict, list)) else m for key, m in value.items()}
    if isinstance(value, list):
        return sorted(_TEXT_OF.encode(_canonical(member)) for member in value)
    return value


_TEXT_OF = json.JSONEncoder(sort_keys=True)

"""Of many changes under way those that an answer shows: found one by one, for as long as each comes nearer to the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from namesrv_core.asking.body_json import read_json

Some = frozenset[int]
"""Changes that have been made, by their numbers."""
_ANOTHER = 1 << 20


def nearest(
    needs: Mapping[int, Some], start: Some, distance: Callable[[Some], int], *, kept: Some = frozenset()
) -> Some:
    """Return the changes, from `start` on, to which no single one more or less is nearer.

    `needs`: of each change those that come before it if it is made; `kept`: those that have been made in any case.
    """
    found, best, is_nearer = start, distance(start), True
    while best and is_nearer:
        is_nearer = False
        for number in needs:
            other = found ^ {number}
            if number in kept or any(not needs[one] <= other for one in other):
                continue
            if (away := distance(other)) < best:
                found, best, is_nearer = other, away, True
    return found


def differing(one: str | None, other: str | None) -> int:
    """Return in how many values two bodies differ; lists are compared as sets of their elements."""
    try:
        return len(set(_values(one)) ^ set(_values(other)))
    except ValueError:
        return 0 if one == other else _ANOTHER


def _values(body: str | None) -> Iterator[str]:
    return iter(()) if body is None else _leaves(read_json(body), "")


def _leaves(value: Any, where: str) -> Iterator[str]:  # any JSON value
    yield f"{where}{type(value).__name__}"
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _leaves(member, f"{where}/{key}")
    elif isinstance(value, list):
        yield from (f"{where}#{json.dumps(member, sort_keys=True)}" for member in value)
    else:
        yield f"{where}={value}"


def order_of(rows: Mapping[int, set[Any]], numbers: Sequence[int]) -> dict[int, Some]:
    """Return of each change the earlier ones that wrote a row which it writes: it comes only behind them."""
    return {
        number: frozenset(before for before in numbers if before < number and rows[before] & rows[number])
        for number in numbers
    }

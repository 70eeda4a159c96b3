"""In how many packs the day of each name server is replayed, and which days are one task: as few as keep all cores busy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
# Below, a name server's day is one pack: it takes less than a task does.
_ROWS_PER_PACK = 20_000
# So many packs for each core: the last ones to end are small.
_ROUNDS = 2
# Days of one pack are one pass in place of three: worth that the last core ends by so much later.
_LONGER = 1.25


def packs_of(rows: Mapping[str, int], width: int) -> dict[str, int]:
    """Return how many packs each name server's day is, by its name, given its `rows`, where `width` tasks run at once.

    Where whole days share the cores evenly, each is one pack; else it has its share of what does.
    """
    if _longest(rows, width) * width <= _LONGER * sum(rows.values()):
        return dict.fromkeys(rows, 1)
    of_all = max(sum(rows.values()), 1)
    return {
        name: max(1, min(-(-width * _ROUNDS * count // of_all), -(-count // _ROWS_PER_PACK)))
        for name, count in rows.items()
    }


def grouped(work: Iterable[tuple[T, int]], width: int) -> list[tuple[T, ...]]:
    """Return work, given with the rows of each, in groups of neighbours: a task each, where `width` tasks run at once.

    What little rows cost is a task, and what is asked of a group at once; a group has no more than a pack, but for its last piece.
    """
    pieces = [(one, rows + 1) for one, rows in work]
    total = sum(rows for _, rows in pieces)
    count = max(width, -(-total // _ROWS_PER_PACK))
    groups: dict[int, list[T]] = {}
    for (one, _), before in zip(pieces, accumulate((rows for _, rows in pieces), initial=0), strict=False):
        groups.setdefault(before * count // total, []).append(one)
    return [tuple(group) for group in groups.values()]


def _longest(rows: Mapping[str, int], width: int) -> int:
    """Return the rows of that core which gets most, if the largest days are handed out first."""
    cores = [0] * width
    for count in sorted(rows.values(), reverse=True):
        cores[cores.index(min(cores))] += count
    return max(cores)

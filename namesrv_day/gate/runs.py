"""Keys that mostly lie in order, compared without being brought together: positions, and microseconds from which ids follow.

What a file has of one owner's keys is a run. No key of two runs that do not overlap is the same; where they do overlap, that
stretch of keys is read once more, from these files alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from namesrv_day.gate.keys import Copies

POSITIONS = "positions"
"""The kind of keys that are positions of a name server. Others are called by their table: the microseconds, at one address of a
name server, of rows from which their ids follow (`keys.TIMED`)."""
Numbers = npt.NDArray[np.int64]
_MARK = 1 << 16
# So many marks, and what lies between them, are compared at once: four million keys.
_MARKS_AT_ONCE = 64


class Run(NamedTuple):
    """The keys of one owner in a file: how many (different positions), the first and last, every 65,536th; which are repeated."""

    kind: str
    owner: str | None
    keys: int
    first: int
    last: int
    marks: tuple[int, ...]
    repeated: tuple[int, ...]


class Stretch(NamedTuple):
    """Keys of one owner from `first` to `last`, of which more than one of `runs`, by their numbers, may have some."""

    kind: str
    owner: str | None
    first: int
    last: int
    runs: tuple[int, ...]


def rises(numbers: Numbers) -> bool:
    """Return whether no number is less than the one before."""
    return bool((numbers[1:] >= numbers[:-1]).all())


def run_of(kind: str, owner: str | None, numbers: Numbers) -> Run:
    """Return the run that keys, at least one and in whatever order, are."""
    ordered, again = _distinct(numbers)
    marks, repeated = tuple(ordered[::_MARK].tolist()), tuple(sorted(set(again.tolist())))
    keys = len(ordered) if kind == POSITIONS else len(numbers)
    return Run(kind, owner, keys, int(ordered[0]), int(ordered[-1]), marks, repeated)


def _distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the different ones of some numbers in order, and those that are left over."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers, numbers[:0]
    # Mostly they are in order, or a few runs of them are, which are merged.
    ordered = numbers if rises(numbers) else np.sort(numbers, kind="stable")
    is_again = np.concatenate([[False], ordered[1:] == ordered[:-1]])
    return ordered[~is_again], ordered[is_again]


def overlaps(runs: Sequence[Run]) -> list[Stretch]:
    """Return the stretches that must be looked at once more; what they hold of memory does not grow with the runs."""
    by_owner: dict[tuple[str, str | None], list[int]] = {}
    for number, run in enumerate(runs):
        by_owner.setdefault((run.kind, run.owner), []).append(number)
    return [stretch for numbers in by_owner.values() for stretch in _of_owner(runs, numbers)]


def _of_owner(runs: Sequence[Run], numbers: Iterable[int]) -> Iterator[Stretch]:
    edges = sorted(edge for n in numbers for edge in ((runs[n].first, True, n), (runs[n].last + 1, False, n)))
    there: set[int] = set()
    for (key, begins, number), (until, _, _) in pairwise(edges):
        if begins:
            there.add(number)
        else:
            there.discard(number)
        if len(there) > 1 and key < until:
            marks = sorted(mark for n in there for mark in runs[n].marks if key < mark < until)
            for first, end in pairwise([key, *marks[_MARKS_AT_ONCE - 1 :: _MARKS_AT_ONCE], until]):
                yield Stretch(*runs[number][:2], first, end - 1, tuple(sorted(there)))


def compared(stretch: Stretch, parts: Sequence[Numbers]) -> Run:
    """Return what the keys that each of its runs has in a stretch say together: so many fewer positions, and what is repeated."""
    *others, most = sorted((_distinct(part)[0] for part in parts), key=len)
    others_keys, again = _distinct(np.concatenate(others))
    # Where a few keys lie among many, these are not brought together.
    places = np.searchsorted(most, others_keys)
    is_there = places < len(most)
    is_there[is_there] = most[places[is_there]] == others_keys[is_there]
    repeated = tuple(sorted({*again.tolist(), *others_keys[is_there].tolist()}))
    fewer = len(again) + int(is_there.sum()) if stretch.kind == POSITIONS else 0
    return Run(*stretch[:2], -fewer, *stretch[2:4], (), repeated)


def within(stretch: Stretch, numbers: Numbers) -> Numbers:
    """Return those of some keys that lie in a stretch."""
    if not rises(numbers):
        return numbers[(numbers >= stretch.first) & (numbers <= stretch.last)]
    first, end = np.searchsorted(numbers, [stretch.first, stretch.last + 1])
    return numbers[first:end]


def copies(kind: str, runs: Iterable[Run]) -> list[Copies]:
    """Return of each owner, runs and compared stretches together, the keys of a kind and which are there more than once."""
    keys: dict[str, int] = {}
    repeated: dict[str, set[int]] = {}
    for run in (run for run in runs if run.kind == kind):
        owner = run.owner or ""
        keys[owner] = keys.get(owner, 0) + run.keys
        repeated.setdefault(owner, set()).update(run.repeated)
    return [Copies(owner, keys[owner], np.array(sorted(repeated[owner]), np.int64).view(np.uint64)) for owner in keys]

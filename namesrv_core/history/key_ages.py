"""The order of one map by the ages of its keys alone, without following each change: what most days leave of most maps.

As long as a map does not grow, a key that goes leaves its bucket, and one that comes ends it. What happens in one bucket of a
map's first table, and in those that it is parted into, hangs on others only by when the map grows: of a large map a few of them
are looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from namesrv_core.machine.java_map import CROWDED_BUCKET, MIN_TREEIFY_CAPACITY, JavaMap, Shape, room_of

Age = tuple[int, int]


class Stay(NamedTuple):
    """A key of a map through some time: its age when that began and when it ended, None where it was not there.

    A key that was there throughout has one age; one that went and came again has another in the end.
    """

    key: Any
    before: Age | None
    now: Age | None


class UnclearError(Exception):
    """The ages of a map's keys do not tell its order."""


def shape_by_ages(empty: JavaMap[Any, Any], stays: Sequence[Stay], before: Shape | None = None) -> Shape | None:
    """Return the shape of a map if it is unlike one into which its keys are put afresh by age; None if it is not.

    `empty`: a map of its kind, without keys; `stays`: all that it ever had in the time; `before`: what its keys did not tell of
    it when that began. Raises UnclearError where the map may have grown, a key came into or left a crowded bucket, or two are of
    one age: there each change is to be followed.
    """
    then, now = _by_age([stay.before for stay in stays]), _by_age([stay.now for stay in stays])
    if before is None and len(stays) < CROWDED_BUCKET:
        return None
    if empty.computes:
        raise UnclearError
    lives = _Lives(empty, stays, then, now)
    some = lives.touched(before) if lives.is_parted(before) else range(len(stays))
    return lives.of(some, before).shape_unlike(lives.afresh(some))


class _Part(JavaMap[Any, None]):
    """Some buckets of a map: it grows when the whole map does."""

    __slots__ = ()
    grows = False

    def make_room(self, keys: int) -> None:
        """Grow as the whole map has when it got so many keys."""
        while keys >= room_of(self.capacity, concurrent=self.concurrent):
            self.grow()


class _Lives:
    """The keys of a map by their numbers: `then` and `now`, the oldest first."""

    def __init__(
        self, empty: JavaMap[Any, Any], stays: Sequence[Stay], then: Sequence[int], now: Sequence[int]
    ) -> None:
        self._empty, self._stays, self._then, self._now = empty, stays, then, now
        self._moved = [number for number, stay in enumerate(stays) if stay.before != stay.now]

    def is_parted(self, before: Shape | None) -> bool:
        """Return whether buckets of the first table are each others' in nothing: the map grows by the number of its keys alone.

        It has as many buckets before, after and throughout.
        """
        doubled = {len([*self._rooms(len(of))]) for of in (self._then, self._now, self._stays)}
        first = self._empty.capacity
        is_told = before is None or doubled == {(before.capacity // first).bit_length() - 1}
        return first >= MIN_TREEIFY_CAPACITY and len(doubled) == 1 and is_told

    def touched(self, before: Shape | None) -> list[int]:
        """Return the keys of those buckets of the first table in which the order may be another."""
        spreads, mask = [self._empty.spread_of(stay.key) for stay in self._stays], self._empty.capacity - 1
        found = {self._empty.bucket_of(key) for key, _ in before.placed} if before else set[int]()
        numbers, capacity = set(self._moved), self._empty.capacity
        for room in [*self._rooms(len(self._stays)), len(self._stays)]:
            orders = (self._then[:room], self._now[:room], range(len(self._stays)) if room == len(self._stays) else ())
            numbers |= {*orders[0]} ^ {*orders[1]}
            for order in orders:
                keys = Counter([spreads[number] & capacity - 1 for number in order])
                found |= {bucket & mask for bucket, of_bucket in keys.items() if of_bucket >= CROWDED_BUCKET}
            capacity *= 2
        if self._empty.concurrent:  # else lists stay as they are when the map grows
            found |= {spreads[number] & mask for number in numbers}
        return [number for number, spread in enumerate(spreads) if spread & mask in found] if found else []

    def of(self, some: Sequence[int], before: Shape | None) -> JavaMap[Any, None]:
        """Return those buckets as they are in the end, in which some keys lie."""
        part = self._filled(self._then, some)
        if before is not None:
            part.reshape(before)
        if len(self._stays) >= room_of(part.capacity, concurrent=part.concurrent):
            raise UnclearError
        wanted = {*some}
        moved = {number for number in self._moved if number in wanted}
        keys = Counter(part.bucket_of(self._stays[number].key) for number in some)
        for bucket in {part.bucket_of(self._stays[number].key) for number in moved}:
            if keys[bucket] >= CROWDED_BUCKET or part.is_tree(bucket):
                raise UnclearError
        for number in moved:
            part.remove(self._stays[number].key)
        for number in self._now:
            if number in moved:
                part.put(self._stays[number].key, None)
        return part

    def afresh(self, some: Sequence[int]) -> JavaMap[Any, None]:
        """Return those buckets as they are when the keys that there are in the end are put by age."""
        return self._filled(self._now, some)

    def _filled(self, order: Sequence[int], some: Sequence[int]) -> _Part:
        wanted = {*some}
        part = _Part(self._empty.capacity, self._empty.hash_of, concurrent=self._empty.concurrent)
        for rank, number in enumerate(order):
            if number in wanted:
                part.make_room(rank)
                part.put(self._stays[number].key, None)
        part.make_room(len(order))
        return part

    def _rooms(self, keys: int) -> Iterator[int]:
        """Yield by how many keys the map grows each time, until it has so many."""
        for doubled in count():
            room = room_of(self._empty.capacity << doubled, concurrent=self._empty.concurrent)
            if keys < room:
                return
            yield room


def _by_age(ages: Sequence[Age | None]) -> list[int]:
    """Return the numbers of those that have an age, the oldest first."""
    numbers = [number for number, age in enumerate(ages) if age is not None]
    if len({ages[number] for number in numbers}) < len(numbers):
        raise UnclearError
    return sorted(numbers, key=ages.__getitem__)  # type: ignore[arg-type]  # each of these has one

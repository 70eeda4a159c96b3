"""The order of a map by the ages of its keys, against a map that followed each change."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from namesrv_core.history.key_ages import Age, Stay, UnclearError, shape_by_ages
from namesrv_core.machine.java_map import JavaMap, Shape, string_hash

CROWD = ["".join(parts) for parts in (("Aa" if bit >> n & 1 else "BB" for n in range(4)) for bit in range(16))]
"""Names of one hash."""


class Life:
    """A map that is followed, its keys' ages, and what was known of it when the day began."""

    def __init__(self, capacity: int, *, concurrent: bool) -> None:
        self.capacity, self.concurrent = capacity, concurrent
        self.map, self.ages, self.clock = self.empty(), dict[str, Age](), 0
        self.told: Shape | None = None
        self.begin()

    def empty(self) -> JavaMap[str, bool]:
        """A map of this kind without keys."""
        return JavaMap(self.capacity, string_hash, concurrent=self.concurrent)

    def afresh(self) -> JavaMap[str, bool]:
        """The same keys, put by age."""
        fresh = self.empty()
        for key in sorted(self.ages, key=lambda key: self.ages[key]):
            fresh.put(key, value=True)
        return fresh

    def begin(self) -> None:
        """Begin a day as the night does: with a map made afresh, and what was told of the one before."""
        self.told = self.map.shape_unlike(self.afresh())
        self.map = self.afresh()
        if self.told is not None:
            self.map.reshape(self.told)
        self.before, self.seen = dict(self.ages), set(self.ages)

    def toggle(self, key: str) -> None:
        """Put a key, or remove it."""
        self.clock += 1
        self.seen.add(key)
        if key in self.ages:
            del self.ages[key]
            self.map.remove(key)
        else:
            self.ages[key] = (self.clock, 0)
            self.map.put(key, value=True)

    def stays(self) -> list[Stay]:
        """The keys of the day so far."""
        return [Stay(key, self.before.get(key), self.ages.get(key)) for key in sorted(self.seen)]


def days_of(seed: int, capacity: int, *, concurrent: bool, keys: int, crowd: int) -> Counter[str]:
    """Compare four days of a random life; return how often ages told what."""
    random, found = Random(seed), Counter[str]()
    names = [*CROWD[:crowd], *(f"b{seed}-topic-{number:05d}" for number in range(keys))]
    life = Life(capacity, concurrent=concurrent)
    for name in random.sample(names, len(names) * 9 // 10):
        life.toggle(name)
    for _ in range(4):
        life.begin()
        for name in random.choices(names, k=random.choice([1, 3, 8])):
            life.toggle(name)
        expected = life.map.shape_unlike(life.afresh())
        try:
            told = shape_by_ages(life.empty(), life.stays(), life.told)
        except UnclearError:
            found["unclear"] += 1
            continue
        assert told == expected
        found["alike" if told is None else "unlike"] += 1
    return found


@pytest.mark.parametrize("capacity", [16, 64, 256])
@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize(("keys", "crowd"), [(5, 0), (40, 0), (300, 0), (300, 12), (900, 16)])
def test_ages_tell_what_following_each_change_does(capacity: int, *, concurrent: bool, keys: int, crowd: int) -> None:
    """The shape by ages is the followed map's, also a day after one that was told, with trees, or it is called unclear."""
    found = Counter[str]()
    for seed in range(10):
        found += days_of(seed, capacity, concurrent=concurrent, keys=keys, crowd=crowd)
    assert found["alike"] + found["unlike"] > 10
    assert found["alike"] > 0
    if concurrent and keys == 900:
        assert found["unlike"] > 0


def test_two_keys_of_one_age_tell_nothing() -> None:
    """Which of two keys of one age came first nobody knows."""
    with pytest.raises(UnclearError):
        shape_by_ages(JavaMap(16, string_hash, concurrent=False), [Stay("a", None, (1, 0)), Stay("b", None, (1, 0))])


def test_where_keys_come_to_the_head_of_their_bucket_ages_tell_nothing() -> None:
    """A map that computes its values grows when a key is looked up: each change is followed."""
    stays = [Stay(str(number), (number, 0), (number, 0)) for number in range(9)]
    with pytest.raises(UnclearError):
        shape_by_ages(JavaMap(16, string_hash, concurrent=False, computes=True), stays)
    assert shape_by_ages(JavaMap(16, string_hash, concurrent=False, computes=True), stays[:5]) is None


@pytest.mark.parametrize("capacity", [16, 64])
def test_a_map_that_grows_meanwhile_is_followed(capacity: int) -> None:
    """What its keys do while it has one size and then another, ages do not tell."""
    keys = capacity * 3 // 4
    stays = [Stay(f"k{number}", (number, 0), (number, 0)) for number in range(keys)]
    empty: JavaMap[str, bool] = JavaMap(capacity, string_hash, concurrent=False)
    assert shape_by_ages(empty, stays) is None
    with pytest.raises(UnclearError):
        shape_by_ages(empty, [*stays, Stay("last", None, (keys, 0))])

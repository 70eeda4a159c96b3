"""JavaMap against java.util.HashMap and ConcurrentHashMap.

`java_maps.jsonl.gz` was recorded with OpenJDK 17: per line the constructor's `capacity` (0: none given), the class, the operations
(`+key` put, `-key` remove) and, after some of them, the order in which keySet() iterated. Buckets have eight keys at most.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import V4_9_7, Namesrv, Profile, Registry
from namesrv_core.machine.events import RegisterBroker
from namesrv_core.machine.java_map import JavaMap, long_hash, string_hash, string_map, table_size_for
from namesrv_core.machine.step import apply_step, step
from namesrv_core.machine.tables import TopicTable

with gzip.open(Path(__file__).parent / "java_maps.jsonl.gz", "rt", encoding="utf-8") as recorded_lines:
    RECORDED: list[dict[str, Any]] = [json.loads(line) for line in recorded_lines]


def identity(number: int) -> int:
    return number


def numbers(capacity: int = 16, *, concurrent: bool = False) -> JavaMap[int, bool]:
    """A map whose hashes are its keys: buckets can be read off."""
    return JavaMap(capacity, identity, concurrent=concurrent)


def filled(keys: list[int], capacity: int = 16, *, concurrent: bool = False) -> JavaMap[int, bool]:
    table = numbers(capacity, concurrent=concurrent)
    for key in keys:
        table.put(key, value=True)
    return table


@pytest.mark.parametrize(
    ("text", "java_hash"),
    [
        (None, 0),
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("TBW102", -1826525782),
        ("10.0.0.1:10911", 589486022),
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        ("主题", 659901),
        ("😀", 1772899),
        ("\ud83d", 55357),
    ],
)
def test_string_hash_is_that_of_java(text: str | None, java_hash: int) -> None:
    """Hashes run over UTF-16 units: a character beyond the BMP counts as its two surrogates."""
    assert string_hash(text) == java_hash & 0xFFFFFFFF


@pytest.mark.parametrize(("number", "java_hash"), [(0, 0), (15, 15), (1 << 32, 1), (-1, 0), (-2, 1)])
def test_long_hash_is_that_of_java(number: int, java_hash: int) -> None:
    """Upper and lower half are folded; small broker ids are their own hash."""
    assert long_hash(number) == java_hash


@pytest.mark.parametrize(("capacity", "size"), [(0, 1), (1, 1), (2, 2), (15, 16), (16, 16), (17, 32), (1537, 2048)])
def test_table_size_is_the_next_power_of_two(capacity: int, size: int) -> None:
    """A power of two stays what it is."""
    assert table_size_for(capacity) == size


def test_upper_half_of_a_hash_reaches_the_bucket() -> None:
    """Keys that differ only above bit 16 do not all share a bucket."""
    assert [numbers().bucket_of(key) for key in (3, 3 | 1 << 16, 3 | 4 << 16)] == [3, 2, 7]


def test_removing_what_is_not_there_is_nothing() -> None:
    """As Map.remove, which returns null."""
    table = filled([1])
    assert table.remove(2) is None
    assert table.java_keys() == [1]


def test_computed_key_enters_at_the_head_of_its_bucket() -> None:
    """As HashMap.computeIfAbsent does it: the youngest first, and growth only when a key comes to a map over its bound."""
    table: JavaMap[int, bool] = JavaMap(16, identity, concurrent=False, computes=True)
    for key in (1, 17, 33, 2):
        table.put(key, value=True)
    table.put(1, value=False)
    assert list(table.java_items()) == [(33, True), (17, True), (1, False), (2, True)]
    for key in range(3, 12):
        table.put(key, value=True)
    assert (len(table), table.capacity) == (13, 16)
    table.put(12, value=True)
    assert (len(table), table.capacity) == (14, 32)
    assert table.java_keys() == [33, 1, *range(2, 13), 17]


def test_twin_goes_on_as_its_original_would() -> None:
    """The same keys in the same order, the same growth and the same place for a new key; neither sees the other."""
    for concurrent, computes in [(False, False), (False, True), (True, False)]:
        table: JavaMap[int, bool] = JavaMap(16, identity, concurrent=concurrent, computes=computes)
        for key in (1, 17, 2):
            table.put(key, value=True)
        twin = table.twin()
        for changed in (table, twin):
            for key in (33, *range(3, 12)):
                changed.put(key, value=True)
        assert (twin.java_keys(), twin.capacity) == (table.java_keys(), table.capacity)
        twin.remove(1)
        assert 1 in table


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_order_is_that_of_the_recorded_java_map(number: int) -> None:
    """Puts, removals and growth of real Java maps, small and large."""
    recorded = RECORDED[number]
    concurrent = recorded["concurrent"]
    table: JavaMap[str | None, int] = string_map(buckets_of(recorded), concurrent=concurrent)
    done = 0
    for until, order in recorded["orders"]:
        for at, operation in enumerate(recorded["ops"][done:until], start=done):
            if operation[0] == "+":
                table.put(operation[1:], at)
            else:
                table.remove(operation[1:])
        done = until
        assert table.java_keys() == order


def buckets_of(recorded: dict[str, Any]) -> int:
    capacity = recorded["capacity"]
    asked = capacity + capacity // 2 + 1 if recorded["concurrent"] else capacity
    return table_size_for(asked) if capacity else 16


def test_recording_covers_growth_of_both_classes() -> None:
    """The comparison means something.

    Both classes, given and default capacities, and maps of many hundred keys.
    """
    assert {(recorded["concurrent"], recorded["capacity"] == 0) for recorded in RECORDED} == {
        (False, False), (False, True), (True, False), (True, True),
    }  # fmt: skip
    for concurrent in (False, True):
        assert (
            max(len(recorded["orders"][-1][1]) for recorded in RECORDED if recorded["concurrent"] is concurrent) > 600
        )


@pytest.mark.parametrize("computes", [False, True])
def test_a_hash_map_that_is_given_its_capacity_has_the_order_of_one_that_grew(*, computes: bool) -> None:
    """What is left of many keys, put by age into a fresh map: as many buckets, and each key where it was, now and later."""
    grown, fresh = (JavaMap[int, bool](16, identity, concurrent=False, computes=computes) for _ in range(2))
    for key in range(0, 16 * 40, 16):
        grown.put(key, value=True)
    for key in range(0, 16 * 40, 48):
        grown.remove(key)
    for key in sorted(grown):
        fresh.put(key, value=True)
    assert fresh.capacity == fresh.capacity_of(len(fresh)) == 64
    grown.remove(16)
    fresh.remove(16)
    fresh.resize(grown.capacity)
    for one in (grown, fresh):
        one.put(16, value=True)
    assert (fresh.capacity, fresh.java_keys()) == (grown.capacity, grown.java_keys())


@pytest.mark.parametrize("concurrent", [False, True])
def test_capacity_follows_from_the_most_keys(*, concurrent: bool) -> None:
    """As many buckets as a map has into which so many keys were put."""
    for capacity in (16, 256):
        empty = numbers(capacity, concurrent=concurrent)
        for keys in (0, 1, empty.room - 1, empty.room, 2 * empty.room, 800):
            assert empty.capacity_of(keys) == filled(list(range(keys)), capacity, concurrent=concurrent).capacity


def registered(profile: Profile, clusters: Sequence[str]) -> Registry:
    """Return the registry in which a broker of each cluster has registered, one after the other."""
    registry, namesrv = Registry(profile), Namesrv(profile)
    for cluster in clusters:
        broker = RegisterBroker(cluster, f"{cluster}:1", cluster, 0, None, None, TopicTable([]), None, None)
        apply_step(registry, broker, step(registry, broker, 0, namesrv), 0, namesrv)
    return registry


def test_a_registration_that_finds_its_cluster_may_make_a_hash_map_grow() -> None:
    """One more than fit is in the table; it grows when any cluster is looked up again."""
    clusters = [f"cluster-{number}" for number in range(25)]
    assert registered(V4_9_7, clusters).cluster_addr_table.capacity == 32
    assert registered(V4_9_7, [*clusters, clusters[0]]).cluster_addr_table.capacity == 64

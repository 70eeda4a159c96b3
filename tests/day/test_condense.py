"""Beats condensed to hours: what is kept of them, and what their bits prove."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core.machine.schedule import STALL_NS
from namesrv_day import hours as condense
from namesrv_day.arrow import connection, empty, rows_of
from namesrv_day.hours import CONTENT, HOURS, hours_from, leases_from
from schemas import gold
from tests.day.plan_rows import MIDNIGHT_US, NAMESRV, VERSION, Row, beats, frames, hours, live, opened, row, us
from tests.examples import examples

MINUTE_US = 60_000_000
NO_LEASES = pa.table({"namesrv_id": pa.array([], pa.string()), "broker_addr": [], "slot_us": pa.array([], pa.int64())})


def measured(rows: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of hours in the order of their first beats."""
    return [tuple(found[name] for name in columns) for found in rows_of(rows.sort_by("first_seq").select(columns))]


def test_equal_beats_of_an_hour_are_one_row() -> None:
    """A bit for each minute with a beat; counts, times and positions of the first and last of them."""
    found = hours(*beats(30, 570, 60), row("heartbeats", 3_599.9), row("heartbeats", 3_600))
    assert found.schema == HOURS
    bits = sum(1 << minute for minute in (*range(10), 59))
    first = (60_000_000, MIDNIGHT_US // MINUTE_US // 60, bits, 11, us(30), us(3_599.9))
    second = (60_000_000, MIDNIGHT_US // MINUTE_US // 60 + 1, 1, 1, us(3_600), us(3_600))
    assert measured(found, "slot_us", "bucket", "slots", "beats", "first_us", "last_us") == [first, second]
    assert measured(found, "first_seq", "last_seq") == [
        (us(30) * 1_000, us(3_599.9) * 1_000),
        (us(3_600) * 1_000, us(3_600) * 1_000),
    ]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("heartbeats", "namesrv_id", "10.0.0.8:9876"),
        ("heartbeats", "cluster_name", None),
        ("heartbeats", "broker_name", "two"),
        ("heartbeats", "broker_addr", None),
        ("heartbeats", "code", 904),
        ("heartbeats", "data_version", None),
        ("heartbeats", "data_version", {**VERSION, "counter": 2}),
        ("heartbeats", "data_version", {**VERSION, "timestamp": None}),
        ("heartbeats", "data_version", {**VERSION, "state_version": 0}),
        ("registrations", "broker_id", 1),
        ("registrations", "channel_id", None),
        ("registrations", "ha_server_addr", "h"),
        ("registrations", "enable_acting_master", True),
        ("registrations", "heartbeat_timeout_ms", 120_000),
        ("registrations", "zone_name", "z"),
        ("registrations", "topic_config_digest", "d"),
        ("registrations", "filter_servers", []),
        ("registrations", "filter_servers", ["f"]),
        ("registrations", "refusal", "crc32 not match"),
    ],
)
def test_beats_that_say_something_else_are_rows_of_their_own(table: str, column: str, value: object) -> None:
    """A null is a value like any other, and a list without elements is not a missing one."""
    found = hours(row(table, 1), {**row(table, 2), column: value}, row(table, 3))
    assert measured(found, "kind", "beats") == [(table, 2), (table, 1)]
    if column != "data_version":
        assert {str(value), str(row(table, 1).get(column))} == set(map(str, found[column].to_pylist()))


def test_what_is_said_of_a_heartbeat_alone_does_not_tell_beats_apart() -> None:
    """The connection of a version query, and to whom it answers, change nothing."""
    found = hours(row("heartbeats", 1, channel_id="1:1#1", broker_id=0), row("heartbeats", 2, channel_id="1:1#2"))
    assert measured(found, "beats", "channel_id", "broker_id") == [(2, None, None)]


def test_a_version_is_its_parts() -> None:
    """All parts of no version are null."""
    parts = ("version_state", "version_timestamp", "version_counter")
    given = {"state_version": 3, "timestamp": 4, "counter": 5}
    found = hours(row("registrations", 1, data_version=given), row("registrations", 2, data_version=None))
    assert measured(found, *parts) == [(3, 4, 5), (None, None, None)]
    assert set(parts) < set(CONTENT)


@pytest.mark.parametrize(
    ("lag_ns", "response_code", "longest_ns"),
    [(STALL_NS, 0, STALL_NS), (STALL_NS - 1_000, 0, STALL_NS - 1_000), (STALL_NS, None, 1_000)],
    ids=["as long as a stall", "a little shorter", "nobody knows when it took effect"],
)
def test_a_late_answer_shows_that_a_name_server_stood_still(
    lag_ns: int, response_code: int | None, longest_ns: int
) -> None:
    """One beat of many is enough, but only an answer tells when a beat took effect."""
    late = row("heartbeats", 30, lag_us=lag_ns // 1_000, response_code=response_code)
    found = hours(row("heartbeats", 0, lag_us=1), late, row("heartbeats", 60, lag_us=1))
    assert measured(found, "lag_ns", "beats") == [(longest_ns, 3)]
    assert measured(hours(row("heartbeats", 0, response_code=None)), "lag_ns") == [(None,)]


def slots_of(*rows: Row, live: pa.Table | None = None) -> dict[str | None, int | None]:
    """Return the width of slots, in seconds, by address."""
    found = leases_from(empty(gold.BROKER_LIVE_HISTORY) if live is None else live, frames(*rows)["registrations"])
    return {r["broker_addr"]: None if r["slot_us"] is None else r["slot_us"] // 1_000_000 for r in rows_of(found)}


@pytest.mark.parametrize(
    ("has_ms", "asks_ms", "seconds"),
    [
        (120_000, None, 60),
        (120_000, 119_999, 30),
        (30_000, 120_000, 15),
        (120_000, 30_000, 15),
        (10_000, None, 5),
        (120_000, 2_000, 1),
        (120_000, 1_999, None),
        (10**12, 10**12, 60),
        (10**12 + 1, 120_000, None),
        (-1, 120_000, None),
    ],
)
def test_a_slot_is_at_most_half_of_the_shortest_lease(has_ms: int, asks_ms: int | None, seconds: int | None) -> None:
    """A lease counts that an address has or asks for; sixty slots divide an hour. With an absurd one nobody can say when it ends.

    What is asked for may not be granted: more than the default is not counted on.
    """
    asked = row("registrations", 1, heartbeat_timeout_ms=asks_ms)
    assert slots_of(asked, live=live(heartbeat_timeout_ms=has_ms)) == {"1:1": seconds}
    assert slots_of(live=live(heartbeat_timeout_ms=has_ms)).keys() == {"1:1"}
    assert slots_of(row("registrations", 1, heartbeat_timeout_ms=10**6)) == {"1:1": 60}


def test_each_address_has_slots_of_its_own() -> None:
    """One without an address, too; one of which no lease is known has the widest."""
    leases = opened(
        "broker_live_history",
        {"heartbeat_timeout_ms": 30_000},
        {"broker_addr": None, "heartbeat_timeout_ms": 10_000},
        {"broker_addr": "2:1", "heartbeat_timeout_ms": 120_000},
    )
    told = [row("heartbeats", n, broker_addr=addr) for n, addr in enumerate(("1:1", None, "2:1", "3:1"))]
    found = hours(*told, live=leases)
    assert measured(found, "broker_addr", "slot_us") == [
        ("1:1", 15_000_000),
        (None, 5_000_000),
        ("2:1", 60_000_000),
        ("3:1", 60_000_000),
    ]
    assert all(r["bucket"] == r["first_us"] // r["slot_us"] // 60 for r in rows_of(found))


def test_one_width_is_everybodys() -> None:
    """Where all leases allow the same slots, nobody is looked up; what proves nothing is told by the width."""
    short = opened(
        "broker_live_history", {"heartbeat_timeout_ms": 30_000}, {"broker_addr": "2:1", "heartbeat_timeout_ms": 1}
    )
    found = hours(row("heartbeats", 1), row("heartbeats", 2, broker_addr="2:1"), live=short)
    assert measured(found, "slot_us") == [(15_000_000,), (15_000_000,)]


# -- any beats at all --------------------------------------------------------------------------------------------------

TIMES = st.lists(st.integers(0, 4 * 3_600_000_000), min_size=1, max_size=60, unique=True)


def condensed(at_us: list[int], slot_us: int) -> list[dict[str, Any]]:
    rows = frames(*(row("heartbeats", n / 1_000_000) for n in at_us))["heartbeats"]
    leases = pa.table({"namesrv_id": [NAMESRV], "broker_addr": ["1:1"], "slot_us": [slot_us]})
    found = hours_from(connection().from_arrow(rows), "heartbeats", leases if slot_us else NO_LEASES)
    return list(rows_of(found.sort_by("first_us")))


@settings(max_examples=examples(25))
@given(TIMES, st.sampled_from([1, 5, 15, 60]))
def test_nothing_of_beats_is_lost(at_us: list[int], width_s: int) -> None:
    """Every row is what can be counted by hand; a bucket lies within a period."""
    found = condensed(at_us, width_s * 1_000_000)
    buckets: dict[int, list[int]] = {}
    for instant in sorted(MIDNIGHT_US + n for n in at_us):
        buckets.setdefault(instant // (width_s * 60_000_000), []).append(instant)
    expected = [
        (bucket, functools.reduce(operator.or_, (1 << (n // (width_s * 1_000_000)) % 60 for n in times)), len(times))
        for bucket, times in buckets.items()
    ]
    assert [(r["bucket"], r["slots"], r["beats"]) for r in found] == expected
    assert [(r["first_us"], r["last_us"]) for r in found] == [(times[0], times[-1]) for times in buckets.values()]
    assert all(r["first_us"] // condense.PERIOD_US == r["last_us"] // condense.PERIOD_US for r in found)

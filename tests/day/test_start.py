"""The state in which a day begins: rows of all history tables to intervals and back, and the registry that they make."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, take
from namesrv_core.history.intervals import Histories, Interval, Member, Position, Reported
from namesrv_core.machine.past import ANY, Entity, Mark, Past
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.tables import (
    UNRECORDED,
    BrokerData,
    BrokerLiveInfo,
    DataVersion,
    KvValue,
    LiveKey,
    QueueData,
    TopicQueueMappingInfo,
)
from namesrv_day.arrow import plain, table_of
from namesrv_day.context import NamesrvDay, capacities_in, facts_in, frame, intervals_in, started
from namesrv_day.events import Frames
from namesrv_day.replay import history_rows
from schemas import gold
from schemas.tables.state import past_row
from tests.core.adversary import EVENTS, NAMESRVS, PAUSES_MS, understood_by
from tests.day.lives import NAMESRV
from tests.examples import examples
from tools.trace.state import state_of

SAME = {"namesrv_id": NAMESRV, "day": dt.date(2026, 1, 2)}
VERSION = DataVersion(1, 1_700_000_000_000, None)


def interval(table: str, key: tuple[object, ...], value: object, **more: Any) -> Interval:
    """Return an open interval that began at 7 us; `more`: what else is known of it."""
    at = Position(7_000, 1)
    return Interval(table, key, value, 7, "e7", at, at, None)._replace(**more)


OUTER = {"outer_entered_at": Position(3_000, 0)}
ENDED = {"valid_to_us": 9, "closed_by": "e9", "closed_at": Position(9_000, 2)}
LIVE = {"first_update_ms": 4, "last_update_ms": 6}
OF_EACH_TABLE = [
    interval("topic_queue", ("T", "b"), QueueData(4, 3, 6, 1), **OUTER),
    interval("topic_queue", (None, None), QueueData(4, 3, 6, 1), **OUTER, **ENDED),
    interval("broker_addr", ("b", 0), Member("1:1", "C", enable_acting_master=True, zone_name="z"), **OUTER),
    interval("broker_addr", ("b", None), Member(None, None, enable_acting_master=False, zone_name=None), **OUTER),
    interval("cluster_addr", ("C", "b"), True, known_from_us=5, **OUTER),
    interval("broker_live", LiveKey("C", "1:1"), BrokerLiveInfo(VERSION, 120_000, "c", "1:2", "b"), **LIVE),
    interval("broker_live", LiveKey(None, None), BrokerLiveInfo(None, 0, UNRECORDED, None), **LIVE, **ENDED),
    interval("filter_server", LiveKey("C", "1:1"), ("f", "g")),
    interval("kv_config", ("N", None), KvValue(None), beginning_seen=False, **OUTER),
    interval("kv_config", ("N", "k"), KvValue("v"), **OUTER),
    interval("topic_queue_mapping", ("T", "b"), TopicQueueMappingInfo("T", "b", 4, 2, dirty=True, curr_id_map="{}"), **OUTER),
    interval("data_version", ("C", "b", "1:1"), Reported(VERSION, None, is_regression=False)),
    interval("data_version", (None, "b", None), Reported(None, VERSION, is_regression=True), **ENDED),
]  # fmt: skip


def rows_of(intervals: list[Interval]) -> dict[str, pa.Table]:
    by_table = {table: [i for i in intervals if f"{i.table}_history" == table.name] for table in gold.HISTORY_TABLES}
    return {table.name: history_rows(table, found, SAME) for table, found in by_table.items()}


def day_of(namesrv: Namesrv, **more: Any) -> NamesrvDay:
    return NamesrvDay(NAMESRV, namesrv, ScanSchedule([], 5_000), 0, 0, **more)


def test_intervals_of_all_tables_come_back_from_their_rows() -> None:
    """Null keys, empty groups, versions that are null or lack a counter, and everything that an interval says of itself."""
    rows = rows_of(OF_EACH_TABLE)
    assert {interval.table for interval in OF_EACH_TABLE} == {name.removesuffix("_history") for name in rows}
    assert all(rows[table.name].schema == plain(table.schema) for table in gold.HISTORY_TABLES)
    assert by_key(intervals_in(rows)) == by_key(OF_EACH_TABLE)


def test_rows_say_what_the_tables_say() -> None:
    """Times are instants, a lease's last beat among them; a row of another table has none."""
    live = rows_of([OF_EACH_TABLE[5]])["broker_live_history"].to_pylist()
    assert [(row["valid_from"], row["first_update_time"], row["last_update_time"]) for row in live] == [
        tuple(dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(microseconds=us) for us in (7, 4_000, 6_000))
    ]
    assert live[0]["data_version"] == {"state_version": 1, "timestamp": 1_700_000_000_000, "counter": None}
    assert (live[0]["opened_at"], live[0]["closed_at"], live[0]["outer_entered_at"]) == (
        {"seq": 7_000, "no": 1},
        None,
        None,
    )
    assert live[0]["namesrv_id"] == NAMESRV


def starting(context: NamesrvDay, open_rows: Frames) -> tuple[Registry, Histories]:
    """Return what a day begins with, of open rows of histories, and rows of past_knowledge and map_capacities, by table."""
    return started(
        context, intervals_in(open_rows), facts_in(open_rows), capacities_in(frame(open_rows, gold.MAP_CAPACITIES))
    )


def test_a_table_that_is_missing_has_no_rows() -> None:
    """On the first day there is nothing at all."""
    registry, histories = starting(day_of(Namesrv(V5_4_0)), {})
    assert state_of(registry) == state_of(Registry(V5_4_0))
    assert list(histories.open_intervals()) == []
    assert registry.past is None


def test_a_registry_starts_from_open_rows_with_their_last_beats() -> None:
    """And a live entry goes on from the last of them; how it began does not change."""
    group = OF_EACH_TABLE[2]
    registry, histories = starting(day_of(Namesrv(V5_4_0)), rows_of([group, OF_EACH_TABLE[5]]))
    assert registry.broker_addr_table == {"b": BrokerData("C", ((0, "1:1"),), enable_acting_master=True, zone_name="z")}
    assert registry.last_update_ms == {LiveKey("C", "1:1"): 6}
    first = {i.table: (i.first_update_ms, i.last_update_ms) for i in histories.open_intervals()}
    assert first == {"broker_addr": (None, None), "broker_live": (4, 6)}


@pytest.mark.parametrize("halted", [True, False])
def test_a_scan_that_has_ended_for_good_stays_ended(*, halted: bool) -> None:
    """No row says so; the day's context does."""
    registry, _ = starting(day_of(Namesrv(V4_9_7), scan_halted=halted), {})
    assert registry.scan_halted is halted


def test_what_is_known_of_the_past_is_carried() -> None:
    """From rows of past_knowledge where there are any; else it is unknown since when the day says."""
    past = Past(5)
    past.note([Mark(Entity("topic_queue", "T", ANY)), Mark(Entity("broker_addr", "b", 0), known=False)])
    rows = table_of((past_row(fact, NAMESRV) for fact in past.dump()), gold.PAST_KNOWLEDGE)
    facts = facts_in({gold.PAST_KNOWLEDGE.name: rows})
    assert facts == list(past.dump())
    registry, _ = starting(day_of(Namesrv(), past_is_carried=True), {gold.PAST_KNOWLEDGE.name: rows})
    assert registry.past is not None
    assert list(registry.past.dump()) == facts
    registry, _ = starting(day_of(Namesrv(), unknown_from_ms=8), {})
    assert registry.past is not None
    assert registry.past.from_ms == 8


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(NAMESRVS, st.lists(st.tuples(EVENTS, PAUSES_MS), max_size=40))
def test_a_registry_comes_back_from_the_rows_of_its_intervals(namesrv: Namesrv, said: list[tuple[Any, int]]) -> None:
    """Whatever has happened to it, in rows that have no order: all tables, and all intervals that are open."""
    registry, histories, at_ms = Registry(namesrv.profile), Histories(), 1_700_000_000_000
    for number, (event, pause) in enumerate(said):
        if understood_by(namesrv, event):
            at_ms += pause
            step = take(registry, event, at_ms, namesrv)
            list(histories.record(step.changes, seq=number, event_id=f"e{number}", at_us=at_ms * 1_000))
            if step.refreshed is not None:
                histories.refreshed(step.refreshed, at_ms)
    held = list(histories.open_intervals())
    rows = {
        name: of_table.take(pa.array(range(of_table.num_rows)[::-1], pa.int64()))
        for name, of_table in rows_of(held).items()
    }
    again, opened = starting(day_of(namesrv, scan_halted=registry.scan_halted), rows)
    assert state_of(again) == state_of(registry)
    assert by_key(opened.open_intervals()) == by_key(held)


def by_key(intervals: Iterable[Interval]) -> dict[tuple[str, object], Interval]:
    return {(found.table, found.key): found for found in intervals}

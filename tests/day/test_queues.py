"""Rows of queues: columns until something asks for them, and intervals when they change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv, take
from namesrv_core.history.intervals import Histories, restored
from namesrv_core.machine import events
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.tables import DataVersion, QueueData, TopicConfig, TopicTable
from namesrv_day.context import intervals_from
from namesrv_day.replay import QueueRows, UnmetQueues
from tests.day.plan_rows import opened, us
from tests.examples import examples

QUEUES = "topic_queue_history"
NAMES: tuple[str | None, ...] = ("one", "two", "three", None)


def rows_of(*keys: tuple[str, str | None]) -> pa.Table:
    """Return open rows of topics and broker names, the last of which came first."""

    def row(number: int, topic: str, name: str | None) -> dict[str, Any]:
        at = {"seq": us(-100 - number) * 1_000, "no": number}
        topics = [key[0] for key in keys]
        first = len(topics) - 1 - topics[::-1].index(topic)
        outer = {"seq": us(-100 - first) * 1_000, "no": first}
        queues = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
        times = {"valid_from": us(-100 - number), "opened_by": f"e{number}", "opened_at": at, "entered_at": at}
        of_topic = {"topic": topic, "outer_entered_at": outer}
        return {**of_topic, "broker_name": name, **queues, **times, "beginning_seen": True}

    return opened(QUEUES, *(row(number, *key) for number, key in enumerate(keys)))


def registry_with(rows: pa.Table, namesrv: Namesrv) -> tuple[Registry, UnmetQueues]:
    registry, unmet = Registry(namesrv.profile), UnmetQueues(QueueRows(rows))
    registry.topic_queue_table.begin_with(unmet, {})
    return registry, unmet


def test_only_whose_rows_are_asked_for_are_met() -> None:
    """In the order in which their keys came, which is the order of their changes."""
    rows = rows_of(("T", "one"), ("U", "one"), ("T", "two"), ("V", None))
    registry, unmet = registry_with(rows, Namesrv(V4_9_7))
    assert list(registry.topic_queue_table.topics_of_name("one")) == ["U", "T"]
    assert dict(registry.topic_queue_table) == {name: {"one": QueueData(4, 4, 6, 0)} for name in "UT"}
    assert list(registry.topic_queue_table.topics_of_name("nobody")) == []
    assert sorted(unmet.names(), key=str) == [None, "two"]
    assert (unmet.untouched.num_rows, unmet.touched([])) == (4, [])


def test_what_changes_becomes_an_interval_once() -> None:
    """Its row is no column any more; the others of its name are."""
    rows = rows_of(("T", "one"), ("U", "one"), ("T", "two"))
    registry, unmet = registry_with(rows, Namesrv(V4_9_7))
    step = take(registry, events.DeleteTopic("T", None), 1, Namesrv(V4_9_7))
    assert sorted(change.key for change in step.changes) == [("T", "one"), ("T", "two")]
    assert sorted(one.key for one in unmet.touched(step.changes)) == [("T", "one"), ("T", "two")]
    assert unmet.touched(step.changes) == []
    assert unmet.untouched["topic"].to_pylist() == ["U"]


def test_a_topic_is_known_whoever_has_it() -> None:
    """5.0 leaves a known topic as it is; nobody else's rows are met for that."""
    registry, unmet = registry_with(rows_of(("T", "one"), ("U", "two")), Namesrv(V5_4_0))
    assert registry.topic_queue_table.names_of_topic("T") == ["one"]
    assert unmet.names() == ["two"]


REGISTRATION = events.RegisterBroker(
    "C", "1:1", "one", 0, None, DataVersion(0, 1, 1), TopicTable([TopicConfig("T", 4, 4, 6, 0)]), None, "c"
)
EVENTS: list[events.Event] = [
    *(REGISTRATION._replace(broker_name=name, broker_addr=f"{name}:1") for name in NAMES[:3]),
    REGISTRATION._replace(topics=TopicTable([TopicConfig(topic, 8, 8, 6, 0) for topic in "UV"])),
    *(events.DeleteTopic(topic, None) for topic in "TU"),
    events.DeleteTopic("T", "C"),
    events.WipeWritePerm("one"),
    events.AddWritePerm("two"),
    events.RegisterTopic("U", (("one", QueueData(1, 1, 6, 0)),)),
    events.UnregisterBroker("C", "one:1", "one", 0),
    events.NamesrvStopped(),
]


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.sampled_from("TUVW"), st.sampled_from(NAMES)), unique=True, max_size=12),
    st.lists(st.sampled_from(EVENTS), max_size=6),
    st.sampled_from([V4_9_7, V5_4_0]),
)
def test_nobody_sees_where_rows_lay(keys: list[tuple[str, str | None]], told: list[events.Event], profile: Any) -> None:
    """Whatever happens, the same changes follow as if all rows had been there, and the same intervals are left."""
    rows, namesrv = rows_of(*keys), Namesrv(profile)
    whole = Registry(profile)
    restored(whole, intervals_from(QUEUES, rows))
    of_whole, histories = Histories(intervals_from(QUEUES, rows)), Histories()
    registry, unmet = registry_with(rows, namesrv)
    histories.begin_with(unmet.entered)
    closed, of_whole_closed = list[Any](), list[Any]()
    for seq, event in enumerate(told, 1):
        step, other = take(registry, event, seq, namesrv), take(whole, event, seq, namesrv)
        assert (step.outcome, set(step.changes), step.result) == (other.outcome, set(other.changes), other.result)
        for interval in unmet.touched(step.changes):
            histories.carry(interval)
        name, at_us = f"event-{seq}", us(seq)
        closed += histories.record(step.changes, seq=at_us * 1_000, event_id=name, at_us=at_us)
        of_whole_closed += of_whole.record(other.changes, seq=at_us * 1_000, event_id=name, at_us=at_us)
    left = [*histories.open_intervals(), *intervals_from(QUEUES, unmet.untouched)]
    for mine, others in ((closed, of_whole_closed), (left, list(of_whole.open_intervals()))):
        assert sorted(map(_without_numbers, mine)) == sorted(map(_without_numbers, others))


def _without_numbers(interval: Any) -> str:
    """Return an interval without the numbers of changes in an event, which depend on what was met."""
    positions = (interval.opened_at, interval.entered_at, interval.outer_entered_at, interval.closed_at)
    at = [None if each is None else each.seq for each in positions]
    return str((*interval[:5], interval.valid_to_us, interval.closed_by, *at))

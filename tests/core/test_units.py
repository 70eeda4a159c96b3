"""Units: brokers that share nothing with the others, and what answers say of them alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from namesrv_core import V4_9_7, V5_4_0, Answer, Question, Registry
from namesrv_core.inference.decisions import Node, Unit, concerned_by, nodes_of
from namesrv_core.inference.decisions import unit_around as unit_in
from namesrv_core.inference.races import Named
from namesrv_core.machine import events
from namesrv_core.machine.step import apply_step, step
from namesrv_core.machine.tables import DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.replay.loop import TimedEvent
from tests.core.test_decisions import NOBODY, A, B, at, day, registration, topics
from tests.core.test_thaw import route


def registry_of(*timed_events: TimedEvent) -> Registry:
    registry, namesrv = Registry(V5_4_0), day([], [], profile=V5_4_0).namesrv
    for timed in timed_events:
        apply_step(registry, timed.event, step(registry, timed.event, 0, namesrv), timed.effect_us // 1_000, namesrv)
    return registry


MAPPING = TopicQueueMappingInfo("T", "broker-a", 4, 1, False, None, None)
BOTH = [
    at(
        1,
        "a",
        events.RegisterBroker(
            "C",
            A,
            "broker-a",
            0,
            None,
            DataVersion(0, 1, 1),
            TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("S", 4, 4, 6, 0)], [MAPPING]),
            ("f:1",),
            "c1",
        ),
    ),
    registration(2, "b", "c2", addr=B, name="broker-b", topic="S"),
]


def unit_around(registry: Registry, met: set[Node], timed_events: Sequence[TimedEvent]) -> Unit:
    return unit_in(registry, met, Named(timed_events, lambda timed: nodes_of(timed.event)), (-1, events.EVER))


def concerns(unit: Unit, event: events.Event) -> bool:
    """Return whether an event is replayed with the unit."""
    named = Named([at(1, "e", event)], lambda timed: concerned_by(timed.event))
    return bool(named.of({*unit.nodes, None}, (-1, events.EVER)))


def both(registry: Registry) -> list[Unit]:
    """Return the units of broker-a and broker-b."""
    return [unit_around(registry, {("name", name)}, []) for name in ("broker-a", "broker-b")]


def test_units_are_what_shares_no_name_address_or_connection() -> None:
    """A topic of both belongs to neither alone, one of another later on to both.

    The brokers of a static topic are one, as are two over one connection.
    """
    one, other = both(registry_of(*BOTH))
    assert set(one.nodes) == {("name", "broker-a"), ("addr", A), ("channel", "c1")}
    assert [set(one.topics), set(one.own_topics), set(other.own_topics)] == [{"T", "S"}, {"T"}, {"TBW102"}]
    queue = QueueData(4, 4, 6, 0)
    joined = at(3, "j", events.RegisterTopic("Static", (("broker-a", queue), ("broker-b", queue))))
    assert unit_around(registry_of(*BOTH), {("addr", A)}, [joined]).names == {"broker-a", "broker-b"}
    shared = [BOTH[0], registration(2, "b", "c1", addr=B, name="broker-b")]
    assert unit_around(Registry(V4_9_7), {("channel", "c1")}, shared).addrs == {A, B}
    later = registration(2, "b", "c2", addr=B, name="broker-b", topic="T")
    assert unit_around(registry_of(BOTH[0]), {("name", "broker-a")}, [later]).own_topics == {"S": inf, "T": later.seq}


def test_events_without_a_connection_have_none_in_common() -> None:
    """Nor do entries of the registry; the end of a connection is of 4.x the broker's address, too."""
    unknown = [registration(1, "a", None), registration(2, "b", None, addr=B, name="broker-b")]  # type: ignore[arg-type]
    assert unit_around(registry_of(*unknown), {("name", "broker-a")}, unknown).names == {"broker-a"}
    assert nodes_of(events.ChannelDestroyed("c1", A)) == {("channel", "c1"), ("addr", A)}


def test_a_unit_has_its_own_rows_and_no_others() -> None:
    """Of every table; KV entries are everybody's. Events of others, and answers, are none of its own."""
    kv = at(3, "kv", events.PutKvConfig("N", "k", "v"))
    registry = registry_of(*BOTH, kv)
    one, other = both(registry)
    assert one.own(registry).holds_the_same_as(registry_of(BOTH[0], kv))
    assert other.own(registry).holds_the_same_as(registry_of(BOTH[1], kv))
    assert one.own(registry).last_update_ms == {key: ms for key, ms in registry.last_update_ms.items() if key[1] == A}
    assert concerns(one, events.RefreshRun(events.BrokerHeartbeat("C", A)))
    assert not concerns(one, events.BrokerHeartbeat("C", B))
    assert concerns(one, events.DeleteTopic("T", None))
    assert concerns(one, events.RegisterTopic("T", None))
    assert concerns(one, events.PutKvConfig("N", "k", "v"))
    assert not concerns(one, events.AnswerObserved(Question(206), topics("T"), 1))


def test_parts_of_answers_show_one_unit() -> None:
    """Whatever stands beside it; of what is not told apart, or is no answer, nothing is said."""
    one, other = both(registry_of(*BOTH))
    cluster = Answer(
        0,
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"x"}},"broker-b":{"brokerAddrs":{}}},"clusterAddrTable":{"C":["broker-b","broker-a"]}}',
    )
    alone = Answer(0, '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"x"}}},"clusterAddrTable":{"C":["broker-a"]}}')
    assert one.part_of(Question(106), cluster) == one.part_of(Question(106), alone)
    assert other.part_of(Question(106), alone) == other.part_of(Question(106), NOBODY)
    asked_s, no_route = Question(105, "S"), Answer(17, None, "No topic route info")
    assert other.part_of(asked_s, route(4)) == other.part_of(asked_s, no_route)
    for asked in (asked_s, asked_s._replace(scope="zone")):  # a zone's routes lack whole groups
        assert one.part_of(asked, route(4)) != one.part_of(asked, route(8))
    silent: Sequence[tuple[Question | events.Event, Answer]] = [
        (Question(105, "Unknown"), no_route),
        (Question(105, "S"), Answer(1, None)),
        (Question(105, "S"), Answer(0, "{}")),
        (Question(224, "C"), topics("S")),
        (Question(901, "broker-b"), Answer(0, "{}")),
        (BOTH[1].event, Answer(0, None)),
        (events.DeleteTopic("T", None), Answer(0, None)),
    ]
    assert [one.part_of(question, answered) for question, answered in silent] == [None] * len(silent)
    assert one.part_of(Question(901, "broker-a"), Answer(0, "{}")) is not None
    assert one.part_of(Question(101, "k", scope="N"), Answer(0, None)) == other.part_of(Question(101), Answer(0, None))
    assert one.part_of(Question(206), topics("S", "T")) == one.part_of(Question(206), topics("T"))
    told, with_kv = Answer(0, None), Answer(0, '{"table":{}}')
    assert one.part_of(BOTH[0].event, told) == one.part_of(BOTH[0].event, with_kv)
    asked_version = events.QueryDataVersion("C", A, None)
    assert one.part_of(asked_version, told) != one.part_of(asked_version, with_kv)

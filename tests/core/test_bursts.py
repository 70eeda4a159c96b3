"""The order in which a frozen name server works off what had come meanwhile, as its answers tell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from namesrv_core import V4_9_7, V5_4_0, Answer, Question, Registry
from namesrv_core.history.verification import Observed
from namesrv_core.inference.bursts import MOST_ORDERS, held_in
from namesrv_core.inference.decisions import Placed, decide, explained_by
from namesrv_core.inference.merging import Graph, Held, Instant, Item, assigned
from namesrv_core.inference.races import Day
from namesrv_core.inference.units import units_of
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo, TopicTable
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule, Stall
from namesrv_core.machine.step import apply_step, step
from namesrv_core.replay.loop import TimedEvent
from tests.core.test_decisions import MS, A, B, at, close, day, evidence, polled, registration, topics

THAW = 5_000
NOBODY = Answer(0, '{"brokerAddrTable":{},"clusterAddrTable":{}}')


def frozen(given: Day) -> Day:
    """Return a day on which the name server stands still from second 2 to second 5."""
    period = given.namesrv.scan_period_ms
    return given._replace(
        schedule=ScanSchedule([ScanEpoch(0, 0)], period, stalls=[Stall(2_000 * MS, THAW * MS)]), until_seq=60_000 * MS
    )


def version(
    ms: float, event_id: str, counter: int, queues: int, *, channel: str = "c0", addr: str = A, broker_id: int = 0
) -> TimedEvent:
    """Return a registration of broker-a with a version, and so many queues."""
    told = TopicTable([TopicConfig("T", queues, queues, 6, 0), TopicConfig("TBW102", 8, 8, 7, 0)])
    data_version = DataVersion(0, counter, counter)
    return at(
        ms,
        event_id,
        events.RegisterBroker("C", addr, "broker-a", broker_id, None, data_version, told, None, channel, False),
    )


def route(queues: int, addrs: str = f'"0":"{A}"') -> Answer:
    """Return the 5.x answer to a question about T."""
    group = f'{{"brokerAddrs":{{{addrs}}},"brokerName":"broker-a","cluster":"C","enableActingMaster":false}}'
    queue = '{"brokerName":"broker-a","perm":6,"readQueueNums":%,"topicSysFlag":0,"writeQueueNums":%}'
    shown = queue.replace("%", str(queues))
    return Answer(0, f'{{"brokerDatas":[{group}],"filterServerTable":{{}},"queueDatas":[{shown}]}}')


def leased(timed: TimedEvent, lease_ms: int) -> TimedEvent:
    """Return a registration with a lease of its own."""
    assert isinstance(timed.event, events.RegisterBroker)
    return timed._replace(event=timed.event._replace(heartbeat_timeout_ms=lease_ms))


def asked(ms: float, event_id: str, question: Question, answered: Answer, since_ms: float | None = None) -> Observed:
    return Observed(
        event_id, round((ms if since_ms is None else since_ms) * MS), round(ms * MS) + 1, question, answered
    )


def unmatched(given: Day) -> set[str]:
    """Return the answers that a day, as it is decided, does not explain."""
    moves = {placed.event_id: placed for placed in decide(given)[1]}
    taken = sorted(
        _placed(timed, moves[timed.event_id]) if timed.event_id in moves else timed for timed in given.timed_events
    )
    explained = explained_by(given._replace(timed_events=taken))
    return {observed.event_id for observed in given.observations} - explained


def _placed(timed: TimedEvent, placed: Placed) -> TimedEvent:
    event = timed.event
    if isinstance(event, events.ChannelDestroyed):
        event = event._replace(looked_up=placed.looked_up)
    return timed._replace(seq=placed.seq, event=event)


def test_nothing_takes_effect_while_the_name_server_stands_still() -> None:
    """A connection is reset in the stall, a heartbeat comes in it: both count from its end."""
    burst = [
        registration(1_000, "before", "c1"),
        close(3_000, "reset", "c1"),
        at(3_500, "beat", events.BrokerHeartbeat("C", A)),
        registration(5_001, "again", "c2", topic="U"),
    ]
    waited = asked(THAW, "waited", Question(206), topics("TBW102", "T"), 2_500)
    given = frozen(day(burst, [waited], {"before": 999, "again": 4_000}, V5_4_0))
    decided, moved = decide(given)
    assert moved == [Placed("reset", THAW * MS, None), Placed("beat", THAW * MS + 1, None)]
    assert [evidence(each)[:2] for each in decided] == [("removal_and_registration", 0)]
    assert explained_by(given) == {"waited"}


@pytest.mark.parametrize("ended", [[], ["c1"]])
def test_a_scan_that_is_made_up_for_expires_whose_connection_it_closes(ended: list[str]) -> None:
    """Two leases have ended, and a beat of each has waited: the broker whose connection goes on was renewed before the scan."""
    leases = [
        version(1_000, "a", 1, 4, channel="c1"),
        registration(1_001, "b", "c2", addr=B, name="broker-b", topic="U"),
    ]
    burst = [
        *(leased(each, 2_000) for each in leases),
        at(THAW + 2, "of-a", events.BrokerHeartbeat("C", A)),
        at(THAW + 2, "of-b", events.BrokerHeartbeat("C", B)),
        *(close(THAW, channel, channel) for channel in ["c2", *ended]),
    ]
    shown = topics() if ended else topics("TBW102", "T")
    given = frozen(
        day(burst, [asked(THAW + 500, "later", Question(206), shown)], {"of-a": 3_000, "of-b": 3_000}, V5_4_0)
    )
    schedule = ScanSchedule([ScanEpoch(0, -1_000 * MS)], 5_000, [THAW * MS], given.schedule.stalls)
    assert unmatched(given._replace(schedule=schedule)) == set()


def test_a_request_without_response_may_be_worked_off_long_after_its_connection_ended() -> None:
    """Its client had gone away; a later registration of the same broker had been answered, and what the older one says stays."""
    burst = [
        version(1_000, "before", 1, 4),
        version(THAW, "old", 2, 16, channel="gone"),
        close(THAW, "gone", "gone"),
        version(THAW + 150, "new", 3, 8, channel="c2"),
    ]
    received = {"before": 999, "new": THAW + 140}
    later = [asked(THAW + ms, f"later-{ms}", Question(105, "T"), route(16)) for ms in (200, 300, 400)]
    slow = asked(THAW + 160, "slow", Question(105, "T"), route(16), 2_500)
    given = frozen(day(burst, [slow, *later], received, V5_4_0))
    assert explained_by(given) == {"slow"}
    assert unmatched(given) == set()
    assert evidence(decide(given)[0][0]) == ("burst_order", 1, ("later-200", "later-300", "later-400"), ())


def test_orders_of_two_brokers_meet_in_the_instant_that_an_answer_shows() -> None:
    """Each of three brokers changes twice; two answers show all of them, each another mixture."""
    names = {"broker-a": A, "broker-b": B, "broker-c": "10.0.0.3:10911"}
    burst: list[TimedEvent] = []
    received: dict[str, float] = {}
    for n, (name, addr) in enumerate(names.items()):
        burst += [
            registration(1_000 + n, f"first-{name}", f"c{n}", addr=addr, name=name, topic=f"T{n}"),
            close(THAW + n, f"end-{name}", f"c{n}"),
            registration(THAW + 50 + n, f"second-{name}", f"d{n}", addr=addr, name=name, topic=f"U{n}"),
        ]
        received |= {f"first-{name}": 999, f"second-{name}": 3_000}
    mixed = [
        asked(THAW + 40, "one", Question(206), topics("TBW102", "T0", "U1"), 2_500),
        asked(THAW + 41, "other", Question(206), topics("TBW102", "T0", "U1", "U2"), 2_500),
    ]
    last = polled([(THAW + 500, topics("TBW102", "U0", "U1", "U2"))])
    given = frozen(day(burst, [*mixed, *last], received, V5_4_0))
    assert unmatched(given) == set()


@pytest.mark.slow
def test_the_end_of_a_connection_may_have_been_looked_up_before_a_registration_that_it_undoes() -> None:
    """Where many things race at once, too: the broker is gone although it had registered over another connection since."""
    burst = [
        version(1_000, "before", 1, 4, channel="old"),
        version(1_001, "slave", 1, 4, addr=B, broker_id=1, channel="s"),
    ]
    received = {"before": 999, "slave": 1_000.5}
    for n in range(14):
        burst += [version(THAW + 1, f"again-{n}", 1, 4, channel=f"c{n}"), close(THAW + 1, f"end-{n}", f"c{n}")]
        received[f"again-{n}"] = 4_000
    burst += [close(THAW, "end", "old"), version(THAW + 20, "last", 1, 4, channel="new")]
    received["last"] = THAW
    gone = route(4, f'"1":"{B}"')
    later = [asked(THAW + ms, f"later-{ms}", Question(105, "T"), gone) for ms in (100, 200, 300)]
    given = frozen(day(sorted(burst), later, received, V5_4_0))
    assert unmatched(given) == set()
    (decided,), _ = decide(given)
    assert (decided.race.kind, decided.chosen) == ("burst_order", 1)


@pytest.mark.slow
def test_search_ends_where_no_order_explains_anything() -> None:
    """So many orders are tried and no more; nothing is decided, the answers stay what they are."""
    burst: list[TimedEvent] = []
    for n in range(9):
        burst += [version(THAW + n, f"r{n}", n, n + 1, channel=f"c{n}"), close(THAW + n, f"e{n}", f"c{n}")]
    burst += [version(THAW + 10, "answered", 7, 5), version(THAW + 30, "arrived-later", 8, 6)]
    burst.append(at(THAW + 11, "beat", events.QueryDataVersion("C", A, DataVersion(0, 7, 7))))
    received: dict[str, float] = {"answered": 4_000, "arrived-later": THAW + 20, "beat": 4_000}
    nonsense = [asked(THAW + ms, f"a{ms}", Question(105, "T"), route(77), 2_500) for ms in (15, 16, 25)]
    given = frozen(day(sorted(burst), nonsense, received, V5_4_0))
    assert MOST_ORDERS >= 500
    assert [each.race.kind for each in decide(given)[0] if each.race.kind == "burst_order"] == []
    assert unmatched(given) == {"a15", "a16", "a25"}


def test_answers_stand_where_they_were_seen() -> None:
    """Where the past is unknown they are events, too, and teach what they show: no order moves them."""
    seen = at(THAW + 1, "seen", events.AnswerObserved(Question(206), topics("T"), 4_000 * MS))
    told = registration(THAW + 2, "told", "c1")
    given = day([seen, told], [], {"told": 4_000}, V5_4_0)
    assert held_in(given, given.timed_events, THAW * MS, told.seq) == [Held(told, THAW * MS, told.seq)]


# -- orders made one ---------------------------------------------------------------------------------------------------


def held(earliest: int, seq: int, latest: int) -> Held:
    return Held(TimedEvent(seq, f"e{seq}", 0, events.NamesrvStopped()), earliest, latest)


def test_orders_are_kept_as_far_as_they_can_be() -> None:
    """A pair against what is known already cannot be; what nothing says follows where it was recorded."""
    events_ = held(0, 100, 900), held(0, 200, 900), held(0, 300, 900)
    graph = Graph(events_, (0, 0, 0)).with_pairs([(2, 0)])
    assert graph is not None
    assert graph.order() == [2, 0, 1]
    assert graph.with_pairs([(0, 2)]) is None
    assert graph.with_pairs([(1, 1)]) is None
    assert [timed.seq for timed in assigned(events_, [Item(2), Item(0), Item(1)])] == [99, 100, 200]


def test_an_answer_shows_an_instant_between_its_question_and_itself() -> None:
    """What it shows had been done by then, and what it does not show can be done no sooner than it was asked."""
    graph = Graph((held(100, 500, 900), held(0, 200, 900), held(300, 600, 900), held(0, 50, 60)), (0, 0, 0, 0))
    seen = Observed("a", 70, 250, Question(206), NOBODY)
    assert graph.showing(seen, [[Instant(2, None)]]) is None  # it came later
    assert graph.showing(seen, [[Instant(None, 3)]]) is None  # it was done before
    both = graph.showing(seen, [[Instant(2, None), Instant(0, None)], [Instant(None, 1)]])
    assert both is not None
    assert both.order() == [3, 0, 1, 2]
    assert [timed.seq for timed in assigned(both.held, list(map(Item, both.order())))] == [50, 199, 200, 600]
    assert both.showing(seen, [[Instant(1, None)], [Instant(None, 0)]]) is None


# -- units -----------------------------------------------------------------------------------------------------------


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


def test_units_are_what_shares_no_name_address_or_connection() -> None:
    """A topic of both belongs to neither alone; a static topic's brokers, and two over one connection, are one."""
    one, other = sorted(units_of(registry_of(*BOTH), []), key=lambda unit: sorted(map(str, unit.names)))
    assert [set(one.names), set(one.addrs), set(one.channels)] == [{"broker-a"}, {A}, {"c1"}]
    assert [set(one.topics), set(one.own_topics), set(other.own_topics)] == [{"T", "S"}, {"T"}, {"TBW102"}]
    queue = QueueData(4, 4, 6, 0)
    joined = at(3, "j", events.RegisterTopic("Static", (("broker-a", queue), ("broker-b", queue))))
    assert len(units_of(registry_of(*BOTH), [joined])) == 1
    assert len(units_of(Registry(V4_9_7), [BOTH[0], registration(2, "b", "c1", addr=B, name="broker-b")])) == 1


def test_a_unit_has_its_own_rows_and_no_others() -> None:
    """Of every table; and events of others, and answers, are none of its own."""
    registry = registry_of(*BOTH)
    one, other = sorted(units_of(registry, []), key=lambda unit: sorted(map(str, unit.names)))
    assert one.own(registry).holds_the_same_as(registry_of(BOTH[0]))
    assert other.own(registry).holds_the_same_as(registry_of(BOTH[1]))
    assert one.concerns(events.RefreshRun(events.BrokerHeartbeat("C", A)))
    assert not one.concerns(events.BrokerHeartbeat("C", B))
    assert one.concerns(events.DeleteTopic("T", None))
    assert one.concerns(events.RegisterTopic("T", None))
    assert not one.concerns(events.PutKvConfig("N", "k", "v"))


def test_parts_of_answers_show_one_unit() -> None:
    """Whatever stands beside it; of what is not told apart, or is no answer, nothing is said."""
    one, other = sorted(units_of(registry_of(*BOTH), []), key=lambda unit: sorted(map(str, unit.names)))
    cluster = Answer(
        0,
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"x"}},"broker-b":{}},"clusterAddrTable":{"C":["broker-b","broker-a"]}}',
    )
    alone = Answer(0, '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"x"}}},"clusterAddrTable":{"C":["broker-a"]}}')
    assert one.part_of(Question(106), cluster) == one.part_of(Question(106), alone)
    assert other.part_of(Question(106), alone) == other.part_of(Question(106), NOBODY)
    asked_s, no_route = Question(105, "S"), Answer(17, None, "No topic route info")
    assert other.part_of(asked_s, route(4)) == other.part_of(asked_s, no_route)
    assert one.part_of(asked_s, route(4)) != one.part_of(asked_s, route(8))
    silent: Sequence[tuple[Question | events.Event, Answer]] = [
        (Question(105, "Unknown"), no_route),
        (Question(105, "S"), Answer(1, None)),
        (Question(105, "S"), Answer(0, "{}")),
        (Question(105, "S", scope="zone"), route(4)),
        (Question(224, "C"), topics("S")),
        (Question(901, "broker-b"), Answer(0, "{}")),
        (BOTH[1].event, Answer(0, None)),
        (events.DeleteTopic("T", None), Answer(0, None)),
    ]
    assert [one.part_of(question, answered) for question, answered in silent] == [None] * len(silent)
    assert one.part_of(Question(901, "broker-a"), Answer(0, "{}")) is not None
    assert one.part_of(Question(206), topics("S", "T")) == one.part_of(Question(206), topics("T"))
    told, with_kv = Answer(0, None), Answer(0, '{"table":{}}')
    assert one.part_of(BOTH[0].event, told) == one.part_of(BOTH[0].event, with_kv)
    asked_version = events.QueryDataVersion("C", A, None)
    assert one.part_of(asked_version, told) != one.part_of(asked_version, with_kv)

"""Orders that the wire leaves open, and answers that speak for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from namesrv_core import V4_9_7, V5_4_0, Answer, Namesrv, Profile, Question, Registry
from namesrv_core.history.verification import Observed, verify
from namesrv_core.inference.decisions import MOST_ORDERS, Decided, Deciding, Placed, replayed, thawed
from namesrv_core.inference.races import Day, races_of
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, LiveKey, TopicConfig, TopicTable
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_core.replay.loop import TimedEvent

MS = 1_000_000
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
EMPTY, THERE = Answer(0, '{"topicList":[]}'), Answer(0, '{"topicList":["T"]}')
NOBODY = Answer(0, '{"brokerAddrTable":{},"clusterAddrTable":{}}')


def decide(day: Day) -> tuple[list[Decided], list[Placed]]:
    """Return the decisions of a day by position, and the events that take effect elsewhere than recorded."""
    deciding = Deciding(day)
    deciding.finish(day.start(), day.from_seq - 1)
    return deciding.decided, deciding.placed


def at(ms: float, event_id: str, event: events.Event) -> TimedEvent:
    return TimedEvent(round(ms * MS), event_id, round(ms * 1_000), event)


def registration(
    ms: float, event_id: str, channel: str = "c0", *, addr: str = A, name: str = "broker-a", topic: str = "T"
) -> TimedEvent:
    topics = TopicTable([TopicConfig(topic, 4, 4, 6, 0), TopicConfig("TBW102", 8, 8, 7, 0)])
    event = events.RegisterBroker("C", addr, name, 0, None, DataVersion(0, 1, 1), topics, None, channel)
    return at(ms, event_id, event)


def close(ms: float, event_id: str, channel: str = "c0") -> TimedEvent:
    return at(ms, event_id, events.ChannelDestroyed(channel, "10.0.9.9:5"))


def polled(answers: Iterable[tuple[float, Answer]], code: int = 206) -> list[Observed]:
    return [
        Observed(f"a{ms:g}", round(ms * MS), round(ms * MS) + 1, Question(code), answered) for ms, answered in answers
    ]


def topics(*names: str) -> Answer:
    return Answer(0, '{"topicList":[' + ",".join(f'"{name}"' for name in names) + "]}")


def day(
    timed_events: Sequence[TimedEvent],
    observations: Sequence[Observed],
    received_ms: Mapping[str, float] | None = None,
    profile: Profile = V4_9_7,
) -> Day:
    """A day whose requests in `received_ms` were answered; all others take effect as they arrive."""
    namesrv = Namesrv(profile)
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms)
    answered = {event_id: round(ms * MS) for event_id, ms in (received_ms or {}).items()}
    received = {
        timed.event_id: timed.seq for timed in timed_events if not isinstance(timed.event, events.ChannelDestroyed)
    }
    return Day(
        lambda: Registry(profile),
        sorted(timed_events),
        received | answered,
        frozenset(answered),
        sorted(observations, key=lambda observed: observed.seq),
        namesrv,
        schedule,
        "ns",
        until_seq=1_000_000 * MS,
    )


def explained_by(one: Day) -> frozenset[str]:
    """Return the ids of the answers that a replay of the whole day, in the order recorded, explains."""
    one, registry = thawed(one), one.start()
    before, span = registry.copy(), (one.from_seq - 1, one.until_seq)
    timeline, starts = replayed(one, registry, one.timed_events, span)
    verdicts = verify(before, timeline, one.observations, one.namesrv, starts=starts)
    return frozenset(verdict.observed.event_id for verdict in verdicts if verdict.matched)


def evidence(decided: Decided) -> tuple[str, int, tuple[str, ...], tuple[str, ...]]:
    return decided.race.kind, decided.chosen, decided.answers_for, decided.answers_against


# One segment brings a registration and the end of its connection. By default it is registered first, and
# then removed.
RACE = [registration(1_000, "register"), close(1_001, "close")]


def there() -> Answer:
    return topics("TBW102", "T")


def test_default_order_stands_where_the_answers_agree() -> None:
    """Registered, then removed: the topic never shows. Nothing is moved."""
    (decided,), moved = decide(day(RACE, polled([(1_500, EMPTY), (1_600, EMPTY)])))
    assert evidence(decided) == ("register_and_close", 0, ("a1500", "a1600"), ())
    assert moved == []


def test_answers_may_favour_the_other_order() -> None:
    """Closed first, then registered on a dead channel.

    The broker stays until its lease ends, and the answers say so.
    """
    answers = polled([(1_500, there()), (1_600, there()), (200_000, EMPTY)])
    (decided,), moved = decide(day(RACE, answers))
    assert evidence(decided) == ("register_and_close", 1, ("a1500", "a1600"), ())
    assert moved == [Placed("register", 1_001 * MS + 1, None)]


def test_tie_keeps_the_default() -> None:
    """One answer for each order decides nothing; no answer at all neither."""
    (decided,), _ = decide(day(RACE, polled([(1_500, there()), (1_600, EMPTY)])))
    assert evidence(decided) == ("register_and_close", 0, ("a1600",), ("a1500",))
    (decided,), _ = decide(day(RACE, []))
    assert evidence(decided) == ("register_and_close", 0, (), ())


def test_the_first_answers_decide() -> None:
    """What comes later is not looked at any more."""
    (decided,), _ = decide(day(RACE, polled([(1_500, there()), (2_500, EMPTY), (2_600, EMPTY)])))
    assert evidence(decided) == ("register_and_close", 1, ("a1500",), ())


def test_what_is_under_way_is_waited_for() -> None:
    """A request that had come where the orders would be compared, and takes effect later, is taken first in each of them."""
    wipe = at(2_100, "wipe", events.WipeWritePerm("broker-a"))
    answers = polled([(1_500, there()), (2_050, there()), (2_200, there())])
    (decided,), _ = decide(day([*RACE, wipe], answers, {"wipe": 1_300}))
    assert evidence(decided) == ("register_and_close", 1, ("a1500", "a2050"), ())


def test_majority_decides() -> None:
    """Within a second, two answers against one; the one is reported as a contradiction."""
    (decided,), _ = decide(day(RACE, polled([(1_500, there()), (1_600, there()), (1_700, EMPTY)])))
    assert evidence(decided) == ("register_and_close", 1, ("a1500", "a1600"), ("a1700",))


def test_later_decisions_start_from_the_earlier_ones() -> None:
    """Two races one after the other, each with its own answers; they come in the order of their positions."""
    second = [registration(500_000, "register-2", "c1"), close(500_001, "close-2", "c1")]
    answers = polled([(1_500, there()), (300_000, EMPTY), (500_500, EMPTY), (500_600, EMPTY)])
    decided, _ = decide(day([*RACE, *second], answers))
    assert [evidence(d)[1:3] for d in decided] == [(1, ("a1500",)), (0, ("a500500", "a500600"))]


def test_start_within_the_day_is_followed() -> None:
    """A restart between question and answer empties the routes in both orders alike."""
    start = at(2_000, "start", events.NamesrvStarted())
    (decided,), _ = decide(day([*RACE, start], polled([(1_500, there()), (2_500, EMPTY)])))
    assert evidence(decided) == ("register_and_close", 1, ("a1500",), ())


def test_an_order_that_changes_nothing_is_no_decision() -> None:
    """A topic is deleted that the overlapping registration does not bring back: both orders do the same."""
    requests = [
        registration(1_000, "register"),
        registration(5_000, "again"),
        at(5_001, "delete", events.DeleteTopic("T", None)),
    ]
    overlapping = day(requests, polled([(6_000, topics("TBW102"))]), {"again": 4_999, "delete": 4_998})
    assert [race.kind for race in races_of(overlapping)] == ["overlapping_requests"]
    assert decide(overlapping) == ([], [])


def test_overlapping_requests_are_weighed() -> None:
    """A registration that creates a topic and the topic's deletion were under way together, the responses say little."""
    requests = [registration(1_000, "register"), at(1_001, "delete", events.DeleteTopic("T", None))]
    window = {"register": 990, "delete": 991}
    default, moved = decide(day(requests, polled([(2_000, topics("TBW102"))]), window))
    assert [evidence(d) for d in default] == [("overlapping_requests", 0, ("a2000",), ())]
    other, moved = decide(day(requests, polled([(2_000, there())]), window))
    assert [evidence(d) for d in other] == [("overlapping_requests", 1, ("a2000",), ())]
    assert [(m.event_id, m.seq) for m in moved] == [("delete", 1_000 * MS), ("register", 1_000 * MS + 1)]


def test_a_one_way_request_that_lags_is_told_only_if_answers_show_it() -> None:
    """It came 20 ms before the deletion of its topic, which was answered, and brings the topic back."""
    requests = [registration(1_000, "one-way"), at(1_021, "delete", events.DeleteTopic("T", None))]
    (decided,), moved = decide(day(requests, polled([(2_000, there())]), {"delete": 1_020}))
    assert evidence(decided) == ("one_way_and_request", 1, ("a2000",), ())
    assert moved == [Placed("delete", 1_021 * MS, None), Placed("one-way", 1_021 * MS + 1, None)][1:]
    assert decide(day(requests, polled([(2_000, topics("TBW102"))]), {"delete": 1_020})) == ([], [])
    assert races_of(day([requests[0], requests[1]._replace(seq=1_102 * MS)], [], {"delete": 1_101})) == []


# A broker's old connection ends while its registration over a new one is under way.
MOVED_ON = [registration(1_000, "old"), close(5_000, "close"), registration(5_020, "new", "c1")]


def test_registration_may_be_lost_between_lookup_and_removal() -> None:
    """The registration was answered, and the broker is gone all the same until it registers again: both generations."""
    again = registration(35_000, "again", "c1")
    for profile in (V4_9_7, V5_4_0):
        answers = polled([(4_000, there()), (6_000, EMPTY), (7_000, EMPTY)])
        (decided,), moved = decide(day([*MOVED_ON, again], answers, {"new": 5_005, "again": 34_999}, profile))
        assert evidence(decided) == ("removal_and_registration", 1, ("a6000",), ())
        key = LiveKey("C" if profile is V5_4_0 else None, A)
        assert moved == [Placed("new", 5_005 * MS, None), Placed("close", 5_005 * MS + 1, key)]


def test_registration_may_come_before_the_end_of_the_old_connection() -> None:
    """The new connection takes over before the old one's end is handled, which then hits nobody.

    The deleted topic tells: a broker that had been removed would have brought it back.
    """
    delete = at(4_500, "delete", events.DeleteTopic("T", None))
    answers = polled([(4_000, there()), (5_010, topics("TBW102")), (6_000, topics("TBW102"))])
    (decided,), moved = decide(day([*MOVED_ON, delete], answers, {"new": 4_990}))
    assert evidence(decided) == ("removal_and_registration", 2, ("a5010",), ())
    assert moved == [Placed("new", 5_000 * MS, None), Placed("close", 5_000 * MS + 1, None)]


def test_registration_well_behind_the_close_races_with_nobody() -> None:
    """More than the lag of a removal lies between them: the wire shows the order."""
    assert races_of(day(MOVED_ON, [], {"new": 5_101})) == []


def test_a_removal_that_lags_long_is_told_only_if_answers_show_it() -> None:
    """On a busy name server it does: 50 ms behind the close it undoes the new registration."""
    (decided,), moved = decide(day(MOVED_ON, polled([(6_000, EMPTY), (7_000, EMPTY)]), {"new": 5_050}))
    assert evidence(decided) == ("removal_and_registration", 1, ("a6000",), ())
    assert [placed.event_id for placed in moved] == ["new", "close"]
    assert decide(day(MOVED_ON, polled([(6_000, there())]), {"new": 5_050})) == ([], [])


def test_another_brokers_registration_may_come_before_a_removal_of_its_name() -> None:
    """Of a slave, which has topics of its own: as long as there is a master they are not taken."""
    master = registration(1_000, "master")
    slave = registration(5_040, "slave", "c1", addr=B, topic="U")
    assert isinstance(slave.event, events.RegisterBroker)
    slave = slave._replace(event=slave.event._replace(broker_id=1, enable_acting_master=True))
    first = slave._replace(seq=2_000 * MS, event_id="slave-before", effect_us=2_000_000)
    given = [master, first, close(5_000, "close"), slave]
    kept, taken = topics("TBW102", "T"), topics("TBW102", "T", "U")
    (decided,), moved = decide(day(given, polled([(6_000, kept), (7_000, kept)]), {"slave": 5_040}, V5_4_0))
    assert evidence(decided) == ("removal_and_registration", 1, ("a6000",), ())
    assert [placed.event_id for placed in moved] == ["slave", "close"]
    assert decide(day(given, polled([(6_000, taken)]), {"slave": 5_040}, V5_4_0)) == ([], [])


def test_two_decisions_are_changed_together_where_one_alone_explains_nothing() -> None:
    """Two brokers race at once; only with both on their dead channels the one answer between them fits."""
    races = [
        registration(1_000, "r1", "c1"),
        registration(1_000.001, "r2", "c2", addr=B, name="broker-b", topic="U"),
        close(1_001, "x1", "c1"),
        close(1_001.001, "x2", "c2"),
    ]
    decided, moved = decide(day(races, polled([(1_500, topics("U", "TBW102", "T"))])))
    assert [(d.race.kind, d.chosen, d.answers_for) for d in decided] == [("register_and_close", 1, ("a1500",))] * 2
    assert {m.event_id for m in moved} == {"r1", "r2"}


def test_where_many_orders_are_possible_one_race_at_a_time_is_in_another_one() -> None:
    """Connections of one broker end with what they brought: that it was there in the end the last of them decides."""
    pairs = [(registration(n, f"r{n}", f"c{n}"), close(n + 0.5, f"x{n}", f"c{n}")) for n in range(1_000, 1_030)]
    given = day([each for pair in pairs for each in pair], polled([(1_500, there())]))
    assert len([race for race in races_of(given) if not race.is_far]) > MOST_ORDERS
    decided, moved = decide(given)
    taken = [each for each in decided if each.chosen]
    assert [evidence(each)[1:] for each in taken] == [(1, ("a1500",), ())]
    assert [placed.event_id for placed in moved] == ["r1029"]
    assert len([each for each in decided if each.answers_for]) == MOST_ORDERS - 1, (
        "the others are told without evidence"
    )


def test_brokers_that_share_nothing_are_decided_apart() -> None:
    """Of an answer each is held against its own part: that of the other, which no order explains, counts for neither."""
    races = [*RACE, registration(1_000.5, "b", "c1", addr=B, name="broker-b", topic="U"), close(1_000.9, "y", "c1")]
    decided, _ = decide(day(races, polled([(1_500, topics("T", "TBW102", "Nonsense"))])))
    assert [(d.race.timed_events[0].event_id, d.chosen) for d in decided] == [("register", 1), ("b", 0)]


SHARED = [
    registration(1_000, "a", topic="T"),
    registration(1_010, "b", addr=B, name="broker-b", topic="U"),
    close(5_000, "exception"),
    close(5_000.001, "close"),
]
"""Two brokers over one connection, which ends with two events."""


def test_the_second_event_of_a_connection_of_several_brokers_may_find_the_first_ones_again() -> None:
    """5.x: the answers say whether the other broker stayed; without any it is taken down too."""
    stayed = [(6_000, topics("TBW102", "T")), (7_000, topics("TBW102", "T"))]
    (decided,), moved = decide(day(SHARED, polled(stayed), profile=V5_4_0))
    assert evidence(decided) == ("ends_of_shared_channel", 2, ("a6000",), ())
    assert moved == [Placed("close", 5_000_001_000, LiveKey("C", B))]
    (decided,), moved = decide(day(SHARED, polled([(6_000, EMPTY)]), profile=V5_4_0))
    assert (evidence(decided), moved) == (("ends_of_shared_channel", 0, ("a6000",), ()), [])
    # The map has broker-b first: that it alone stayed is not one of the orders.
    (decided,), moved = decide(day(SHARED, polled([(6_000, topics("TBW102", "U"))]), profile=V5_4_0))
    assert (evidence(decided)[1:], moved) == ((0, (), ()), [])
    assert races_of(day(SHARED, [], profile=V4_9_7)) == []
    event = SHARED[0].event
    assert isinstance(event, events.RegisterBroker)
    nameless = [SHARED[0]._replace(event=event._replace(cluster_name=None)), *SHARED[1:]]
    assert [race.kind for race in races_of(day(nameless, [], profile=V5_4_0))] == ["ends_of_shared_channel"]

"""Orders that the wire leaves open, and answers that speak for one of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Answer, Namesrv, Profile, Question, Registry
from namesrv_core.asking.shown import shown_by
from namesrv_core.history.verification import Observed, answer_of, verify
from namesrv_core.inference import decisions
from namesrv_core.inference.decisions import MOST_ORDERS, Decided, Deciding, Placed, replayed, thawed
from namesrv_core.inference.races import Day, races_of
from namesrv_core.machine import events
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.schedule import Hold, ScanEpoch, ScanSchedule
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_core.replay.loop import TimedEvent
from tests.situations import Language, Situation

MS = 1_000_000
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
NOBODY = Answer(0, '{"brokerAddrTable":{},"clusterAddrTable":{}}')


def decide(day: Day) -> tuple[list[Decided], list[Placed]]:
    """Return the decisions of a day by position, and the events that take effect elsewhere than recorded."""
    deciding = Deciding(day)
    deciding.finish(day.start.copy(), day.from_seq - 1)
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


def unregistered(ms: float, event_id: str, *, addr: str = A, slave: bool = False) -> TimedEvent:
    return at(ms, event_id, events.UnregisterBroker("C", addr, "broker-a", int(slave)))


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
    holds: Sequence[Hold] = (),
) -> Day:
    """A day whose requests in `received_ms` were answered; all others take effect as they arrive."""
    namesrv = Namesrv(profile)
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms, holds=holds)
    answered = {event_id: round(ms * MS) for event_id, ms in (received_ms or {}).items()}
    received = {
        timed.event_id: timed.seq for timed in timed_events if not isinstance(timed.event, events.ChannelDestroyed)
    }
    return Day(
        Registry(profile),
        sorted(timed_events),
        received | answered,
        frozenset(answered),
        lambda: sorted(observations, key=lambda observed: observed.seq),
        namesrv,
        schedule,
        "ns",
        until_seq=1_000_000 * MS,
    )


def explained_by(one: Day) -> frozenset[str]:
    """Return the ids of the answers that a replay of the whole day, in the order recorded, explains."""
    one, registry = thawed(one), one.start.copy()
    before, span = registry.copy(), (one.from_seq - 1, one.until_seq)
    timeline, starts = replayed(one, registry, one.timed_events, span)
    verdicts = verify(before, timeline, one.observations(), one.namesrv, starts=starts)
    return frozenset(verdict.observed.event_id for verdict in verdicts if verdict.matched)


def evidence(decided: Decided) -> tuple[str, int, tuple[str, ...], tuple[str, ...]]:
    return decided.race.kind, decided.chosen, decided.answers_for, decided.answers_against


def told(make: Callable[..., TimedEvent]) -> Callable[..., tuple[TimedEvent, float | None]]:
    """Return what makes an event, and when it was received if it was answered."""
    return lambda *words, received=None, **named: (make(*words, **named), received)


def registered(ms: float, event_id: str, *channel: str, slave: bool = False, **named: Any) -> TimedEvent:
    cluster = named.pop("cluster", "C")
    timed = registration(ms, event_id, *channel, **named)
    assert isinstance(timed.event, events.RegisterBroker)
    role: dict[str, Any] = {"broker_id": 1, "enable_acting_master": True} if slave else {}
    return timed._replace(event=timed.event._replace(cluster_name=cluster, **role))


def shown(ms: float, *names: str, asked: float | None = None) -> Observed:
    """An answer at `ms`, to a question that came just before, or at `asked`."""
    (seen,) = polled([(ms, topics(*names))])
    return seen if asked is None else seen._replace(request_seq=round(asked * MS))


def locked(from_ms: float, until_ms: float) -> Hold:
    return Hold(round(from_ms * MS), round(until_ms * MS))


LANGUAGE = Language(
    {
        "namesrv": ("namesrv", profile_named),
        "registered": ("events", told(registered)),
        "closed": ("events", told(close)),
        "unregistered": ("events", told(unregistered)),
        "deleted": ("events", told(lambda ms, name, topic: at(ms, name, events.DeleteTopic(topic, None)))),
        "wiped": ("events", told(lambda ms, name, broker: at(ms, name, events.WipeWritePerm(broker)))),
        "started": ("events", told(lambda ms, name: at(ms, name, events.NamesrvStarted()))),
        "locked": ("holds", locked),
        "shown": ("answers", shown),
    },
    {},
    dt.date(1970, 1, 1),
)


@pytest.mark.parametrize(
    "situation", [*LANGUAGE.read(Path(__file__).with_name("decisions.txt"))], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_answers_decide_what_the_wire_leaves_open(situation: Situation) -> None:
    """Which order was taken, which answers speak for it and against it, and what takes effect elsewhere than recorded."""
    happened: list[Any] = situation.rows["events"]
    received = {timed.event_id: ms for timed, ms in happened if ms is not None}
    (profile,) = situation.rows.get("namesrv", [V4_9_7])
    answers: list[Any] = situation.rows.get("answers", [])
    holds: list[Any] = situation.rows.get("holds", [])
    given = day([timed for timed, _ in happened], answers, received, profile, holds)
    decided, moved = decide(given)
    lines = [f"race {race.kind}" for race in races_of(given) if situation.asked]
    lines += [f"{d.race.kind} {d.chosen} | {' '.join(d.answers_for)} | {' '.join(d.answers_against)}" for d in decided]
    for placed in moved:
        found = [] if placed.looked_up is None else [str(part or "-") for part in placed.looked_up]
        lines.append(" ".join(["moved", placed.event_id, f"{placed.seq // MS}+{placed.seq % MS}", *found]))
    assert [line.split() for line in lines] == [line.split() for line in situation.found]


@pytest.mark.parametrize(
    "question",
    [Question(105, "T"), Question(901, "broker-a"), events.QueryDataVersion("C", A, DataVersion(0, 1, 1))],
    ids=["route", "member group", "version"],
)
def test_whatever_shows_the_broker_decides(question: Question | events.Event) -> None:
    """Closed first, then registered on a dead connection: a route, a group, and what it is told itself speak for it."""
    pair = [registration(1_000, "register"), close(1_001, "close")]
    there, namesrv = Registry(V5_4_0), Namesrv(V5_4_0)
    replayed(day(pair, [], profile=V5_4_0), there, pair[:1], (0, 1_000 * MS))
    seen = Observed("a", 1_500 * MS, 1_500 * MS + 1, question, answer_of(there, question, namesrv))
    decided, moved = decide(day(pair, [seen], profile=V5_4_0))
    assert [evidence(each) for each in decided] == [("register_and_close", 1, ("a",), ())]
    assert [placed.event_id for placed in moved] == ["register"]


def test_a_member_that_waited_without_response_may_come_behind_all_others_that_did() -> None:
    """Two registrations of the master hold the lock: the slave's flag, which each of them would have taken back, still stands."""
    held = [registration(8_000, "held"), registration(8_001, "held-too")]
    slave = registered(6_000, "slave", "c1", addr=B, slave=True)
    there, namesrv = Registry(V5_4_0), Namesrv(V5_4_0)
    replayed(day([], [], profile=V5_4_0), there, [*held, slave._replace(seq=8_002 * MS)], (0, 8_002 * MS))
    route = Question(105, "T")
    seen = Observed("a", 9_000 * MS, 9_000 * MS + 1, route, answer_of(there, route, namesrv))
    received = {"held": 5_000, "held-too": 5_500}
    decided, moved = decide(day([slave, *held], [seen], received, V5_4_0, [locked(5_000, 8_001)]))
    assert ("a",) in [each.answers_for for each in decided]
    assert [(placed.event_id, placed.seq) for placed in moved] == [("slave", 8_001 * MS + 1)]


@pytest.mark.parametrize("holds", [[], [locked(124_000, 126_000)]])
def test_a_scan_waits_for_the_lock_behind_registrations_that_do(holds: list[Hold]) -> None:
    """A slave without topics of its own keeps those of its dead master: the scan that finds both leases ended comes last."""
    life = [registered(1_000, "slave", "c1", addr=B, slave=True, topic="U"), registration(2_000, "master")]
    life.append(registered(126_000, "again", "c2", addr=B, slave=True, topic="U"))
    seen = polled([(126_500, topics("TBW102", "T", "U"))])
    given = day(life, seen, {"again": 124_000}, V5_4_0, holds)
    assert explained_by(given) == ({"a126500"} if holds else frozenset())


def test_a_request_may_come_before_several_that_were_under_way() -> None:
    """Two unregistrations of a master, then two registrations: of many orders, the one in which the first of these is first.

    It says that the group has no acting master, so that topics keep the write bit; one unregistration before it would take that.
    """
    before = [registration(1_000, "master"), registered(1_500, "slave", "c1", addr=B, slave=True)]
    gone = [unregistered(2_000 + n, f"gone-{n}") for n in range(2)]
    back = [registration(2_002 + n, f"back-{n}", topic="U") for n in range(2)]
    there, namesrv, route = Registry(V5_4_0), Namesrv(V5_4_0), Question(105, "T")
    true = [*before, back[0], *gone, back[1]]
    true = [timed._replace(seq=(1_000 + n) * MS) for n, timed in enumerate(true)]
    replayed(day([], [], profile=V5_4_0), there, true, (0, 2_010 * MS))
    seen = Observed("a", 3_000 * MS, 3_000 * MS + 1, route, answer_of(there, route, namesrv))
    given = day([*before, *gone, *back], [seen], {"master": 999, "slave": 1_499}, V5_4_0)
    decided, moved = decide(given)
    assert [(each.chosen, each.answers_for) for each in decided] == [(1, ("a",)), (1, ("a",))]
    assert [placed.event_id for placed in moved] == ["gone-0", "gone-1"]


@pytest.mark.parametrize("release", ["4.9.3", "4.9.4"])
def test_before_4_9_4_routes_show_which_of_several_brokers_registered_first(release: str) -> None:
    """Their queue data are listed as they came. Since then it makes no difference."""
    namesrv, route = Namesrv(profile_named(release)), Question(105, "T")
    made = [registration(1_000 + n, f"r{n}", f"c{n}", addr=f"10.0.0.{n}:1", name=f"broker-{n}") for n in range(4)]
    for order in permutations(made):
        there = Registry(namesrv.profile)
        replayed(
            day([], [], profile=namesrv.profile), there, [t._replace(seq=n) for n, t in enumerate(order, 1)], (0, 9)
        )
        seen = Observed("a", 3_000 * MS, 3_000 * MS + 1, route, answer_of(there, route, namesrv))
        given = day(made, [seen], {timed.event_id: 990 for timed in made}, namesrv.profile)
        deciding = Deciding(given)
        deciding.finish(given.start.copy(), -1)
        taken = [timed.event_id for timed in deciding.day.timed_events]
        listed = release == "4.9.3"
        assert taken == [timed.event_id for timed in (order if listed else made)]
        assert bool(deciding.decided) == listed


def test_a_tie_falls_as_in_another_recording_of_the_same_life() -> None:
    """Ids differ from recording to recording; which of several orders is taken that explain as much does not."""
    moved = set()
    for one, other, back in permutations("abc"):
        gone = [unregistered(995, one), unregistered(996, other)]
        given = day([*gone, registration(1_000, back)], polled([(1_500, topics())]), {back: 990})
        moved.add(tuple(placed.seq for placed in decide(given)[1]))
    assert moved == {(996 * MS, 996 * MS + 1)}


def test_answers_behind_a_decision_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race costs what its orders differ in, not the ten minutes of answers that come behind it."""
    read = list[Answer]()

    def reading(asked: Question, answered: Answer) -> object:
        read.append(answered)
        return shown_by(asked, answered)

    monkeypatch.setattr(decisions, "shown_by", reading)
    later = [(1_500.0 + n * 1_000, topics("T", "TBW102", f"U{n}")) for n in range(100)]
    gone = unregistered(6_000, "gone")  # both orders come to the same from here on
    decided, _ = decide(day([registration(1_000, "register"), close(1_001, "close"), gone], polled(later)))
    assert [each.chosen for each in decided] == [1]
    answers = [answered for _, answered in later]
    assert answers[0] in read
    assert {*read}.isdisjoint(answers[25:])


def test_where_many_orders_are_possible_one_race_at_a_time_is_in_another_one() -> None:
    """Connections of one broker end with what they brought: that it was there in the end the last of them decides.

    That it was there in between another one does, once that is found.
    """
    pairs = [(registration(n, f"r{n}", f"c{n}"), close(n + 0.5, f"x{n}", f"c{n}")) for n in range(1_000, 1_030)]
    shown = [(1_028.8, topics("TBW102", "T")), (1_500, topics("TBW102", "T"))]
    given = day([each for pair in pairs for each in pair], polled(shown))
    assert len([race for race in races_of(given) if not race.is_far]) > MOST_ORDERS
    decided, moved = decide(given)
    taken = [each for each in decided if each.chosen]
    assert [evidence(each)[1:] for each in taken] == [(1, ("a1028.8",), ()), (1, ("a1500",), ())]
    assert [placed.event_id for placed in moved] == ["r1028", "r1029"]
    own = [each for each in decided if each.answers_for and each.race.kind == "register_and_close"]
    assert own == taken, "the others are told without evidence"

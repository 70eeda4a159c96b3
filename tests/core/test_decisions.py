"""Orders that the wire leaves open, and answers that speak for one of them."""

from __future__ import annotations

from collections.abc import Sequence

from namesrv_core import V4_9_7, Answer, Namesrv, Question, Registry, events
from namesrv_core.decisions import Candidate, Day, weigh
from namesrv_core.replay import TimedEvent
from namesrv_core.rows import DataVersion, TopicConfig, TopicTable
from namesrv_core.schedule import ScanEpoch, ScanSchedule
from namesrv_core.verification import Observed

MS = 1_000_000
EMPTY, THERE = Answer(0, '{"topicList":[]}'), Answer(0, '{"topicList":["T"]}')


def registration(seq_ms: int, event_id: str, addr: str = "10.0.0.1:10911", channel: str = "c0") -> TimedEvent:
    topics = TopicTable([TopicConfig("T", 4, 4, 6, 0)])
    event = events.RegisterBroker("C", addr, "broker-a", 0, None, DataVersion(0, 1, 1), topics, None, channel)
    return TimedEvent(seq_ms * MS, event_id, seq_ms * 1_000, event)


def close(seq_ms: int, event_id: str, channel: str = "c0") -> TimedEvent:
    return TimedEvent(seq_ms * MS, event_id, seq_ms * 1_000, events.ChannelDestroyed(channel, "10.0.9.9:5"))


def polled(answers: Sequence[tuple[int, Answer]]) -> list[Observed]:
    return [Observed(f"a{ms}", ms * MS, ms * MS + 1, Question(206), answered) for ms, answered in answers]


def day(timed_events: Sequence[TimedEvent], answers: Sequence[tuple[int, Answer]]) -> Day:
    namesrv = Namesrv(V4_9_7)
    schedule = ScanSchedule([ScanEpoch(0, 0, phase_known=True)], namesrv.scan_period_ms)
    return Day(
        lambda: Registry(V4_9_7),
        timed_events,
        {},
        polled(answers),
        namesrv,
        schedule,
        "ns",
        until_seq=1_000_000 * MS,
    )


# One segment brings a registration and the end of its connection. By default it is registered first, and
# then removed.
RACE = [registration(1_000, "register"), close(1_001, "close")]
CANDIDATE = Candidate("race", 1_000 * MS, "register", 1_001 * MS + 1)


def test_default_order_stands_where_the_answers_agree() -> None:
    """Registered, then removed: the topic never shows."""
    (weighed,) = weigh(day(RACE, [(1_500, EMPTY), (1_600, EMPTY)]), [CANDIDATE])
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (0, ("a1500", "a1600"), ())


def test_answers_may_favour_the_other_order() -> None:
    """Closed first, then registered on a dead channel.

    The broker stays until its lease ends, and the answers say so.
    """
    answers = [(1_500, THERE), (1_600, THERE), (200_000, EMPTY)]
    (weighed,) = weigh(day(RACE, answers), [CANDIDATE])
    assert weighed.candidate is CANDIDATE
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (1, ("a1500", "a1600"), ())


def test_tie_keeps_the_default() -> None:
    """One answer for each order decides nothing; no answer at all neither."""
    (weighed,) = weigh(day(RACE, [(1_500, THERE), (1_600, EMPTY)]), [CANDIDATE])
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (0, ("a1600",), ("a1500",))
    (weighed,) = weigh(day(RACE, []), [CANDIDATE])
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (0, (), ())


def test_majority_decides() -> None:
    """Two answers against one; the one is reported as a contradiction."""
    (weighed,) = weigh(day(RACE, [(1_500, THERE), (1_600, THERE), (1_700, EMPTY)]), [CANDIDATE])
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (1, ("a1500", "a1600"), ("a1700",))


def test_later_decisions_start_from_the_earlier_ones() -> None:
    """Two races one after the other, each with its own answers; they come in the order of their positions."""
    second = [registration(500_000, "register-2"), close(500_001, "close-2")]
    later = Candidate("second", 500_000 * MS, "register-2", 500_001 * MS + 1)
    answers = [(1_500, THERE), (300_000, EMPTY), (500_500, EMPTY), (500_600, EMPTY)]
    weighed = weigh(day([*RACE, *second], answers), [later, CANDIDATE])
    assert [(w.candidate.decision_id, w.chosen, w.for_chosen) for w in weighed] == [
        ("race", 1, ("a1500",)), ("second", 0, ("a500500", "a500600")),
    ]  # fmt: skip


def test_start_within_the_day_is_followed() -> None:
    """A restart between question and answer empties the routes in both orders alike."""
    start = TimedEvent(2_000 * MS, "start", 2_000_000, events.NamesrvStarted())
    (weighed,) = weigh(day([*RACE, start], [(1_500, THERE), (2_500, EMPTY)]), [CANDIDATE])
    assert (weighed.chosen, weighed.for_chosen, weighed.against_chosen) == (1, ("a1500",), ())

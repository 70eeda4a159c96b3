"""Which requests race: those that touch the same rows while the earlier one was on its way."""

from __future__ import annotations

import pytest

from namesrv_core import V5_4_0, Namesrv, Registry
from namesrv_core.inference.races import Day, races_of
from namesrv_core.machine import events
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.registry import Change
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.tables import BrokerLiveInfo, LiveKey, QueueData, TopicConfig, TopicTable
from namesrv_core.replay.loop import TimedEvent

MS = 1_000_000
QUEUES = QueueData(4, 4, 6, 0)
LIVE = LiveKey("C", "a:1")


def register(name: str = "b", addr: str = "a:1", topic: str | None = "T") -> events.RegisterBroker:
    topics = None if topic is None else TopicTable([TopicConfig(topic, *QUEUES)])
    return events.RegisterBroker("C", addr, name, 0, None, None, topics, None, "new")


def start() -> Registry:
    """A broker that registered over the connection `old` the day before."""
    registry = Registry(V5_4_0)
    registry.apply([Change("broker_live_table", LIVE, BrokerLiveInfo(None, 120_000, "old", None))], 0)
    return registry


def day_of(timed_events: list[TimedEvent], received: dict[str, int]) -> Day:
    """A day of 5.4.0 without observations; what was received was answered."""
    schedule = ScanSchedule([], 5_000)
    return Day(start(), timed_events, received, frozenset(received), list, Namesrv(V5_4_0), schedule, "ns", 2_000 * MS)


def kinds(earlier: events.Event, later: events.Event, received_ms: int = 995) -> list[str]:
    """Return the races of two events at 1,000 and 1,005 ms, of which the later one had arrived at `received_ms`."""
    timed_events = [TimedEvent(1_000 * MS, "e1", 0, earlier), TimedEvent(1_005 * MS, "e2", 0, later)]
    arrivals = {"e1": 990 * MS, "e2": received_ms * MS}
    requests = {timed.event_id for timed in timed_events if not isinstance(timed.event, events.ChannelDestroyed)}
    return [race.kind for race in races_of(day_of(timed_events, {name: arrivals[name] for name in requests}))]


UNREGISTER = events.UnregisterBroker("C", "a:1", "b", 0)
WIPE, ADD = events.WipeWritePerm("b"), events.AddWritePerm("b")
DELETE = events.DeleteTopic("T", None)
TOPIC = events.RegisterTopic("T", (("b", QUEUES),))
PUT, REMOVE = events.PutKvConfig("N", "k", "v"), events.DeleteKvConfig("N", "k")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (register(), UNREGISTER),
        (register(), register(addr="a:2")),
        (register(), register(name="c")),
        (register(), WIPE),
        (WIPE, ADD),
        (WIPE, TOPIC),
        (TOPIC, DELETE),
        (register(), DELETE),
        (register(name="c"), TOPIC),
        (PUT, REMOVE),
    ],
    ids=lambda event: type(event).__name__,
)
def test_requests_that_touch_the_same_rows_race(one: events.Event, other: events.Event) -> None:
    """By broker name, address, topic or KV key, and by the topics that a registration lists; either may be first."""
    assert kinds(one, other) == ["overlapping_requests"]
    assert kinds(other, one) == ["overlapping_requests"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (register(), register("c", "a:2")),
        (register(), events.WipeWritePerm("c")),
        (register(topic="U"), DELETE),
        (register(topic=None), DELETE),
        (TOPIC, events.DeleteTopic("U", None)),
        (WIPE, DELETE),
        (PUT, events.PutKvConfig("N", "l", "v")),
        (PUT, events.PutKvConfig("M", "k", "v")),
        (PUT, register()),
        (events.BrokerHeartbeat("C", "a:1"), register()),
        (events.RefusedRequest("crc32 not match"), register()),
    ],
    ids=lambda event: type(event).__name__,
)
def test_requests_that_touch_different_rows_do_not_race(one: events.Event, other: events.Event) -> None:
    """Their order is open, and it makes no difference; a lease has no order to lose."""
    assert kinds(one, other) == []
    assert kinds(other, one) == []


def test_a_request_that_the_release_does_not_know_races_with_nothing() -> None:
    """It is never answered, so that it would be under way until its connection ends."""
    known = day_of(
        [TimedEvent(1_000 * MS, "e1", 0, register()), TimedEvent(9_000 * MS, "e2", 0, ADD)], {"e2": 995 * MS}
    )
    assert [race.kind for race in races_of(known._replace(answered=frozenset()))] == ["overlapping_requests"]
    assert races_of(known._replace(answered=frozenset(), namesrv=Namesrv(profile_named("4.8.0")))) == []


def test_request_that_arrived_after_the_effect_of_another_does_not_race_with_it() -> None:
    """At the very position of the effect it may still have been first."""
    assert kinds(register(), UNREGISTER, received_ms=1_000) == ["overlapping_requests"]
    assert kinds(register(), UNREGISTER, received_ms=1_001) == []


def test_registration_races_with_the_end_of_the_connection_of_the_day_before() -> None:
    """Whose connection it was is read from the registry that the day starts from; other requests stay out of it."""
    closed = events.ChannelDestroyed("old", "a:50000")
    assert kinds(closed, register()) == ["removal_and_registration"]
    assert kinds(closed, register(addr="a:2")) == []
    assert kinds(closed, WIPE) == []
    assert kinds(events.ChannelDestroyed("unknown", "a:50000"), register()) == []
    assert kinds(events.ChannelDestroyed("new", "a:50000"), register()) == [], "its own connection had ended before"


def test_the_end_of_a_connection_races_with_registrations_of_the_names_that_it_takes_down() -> None:
    """Of another address, too; requests that only wipe the name stay out of it, answered or not, before or behind."""
    named = Registry(V5_4_0)
    named.apply([Change("broker_live_table", LIVE, BrokerLiveInfo(None, 120_000, "old", None, "b"))], 0)

    def raced(one: events.Event, other: events.Event, received: dict[str, int]) -> list[str]:
        timed = [TimedEvent((1_000 + 5 * no) * MS, f"e{no}", 0, event) for no, event in enumerate((one, other))]
        return [race.kind for race in races_of(day_of(timed, received)._replace(start=named))]

    closed = events.ChannelDestroyed("old", "a:50000")
    assert raced(closed, register(addr="a:2"), {"e1": 995 * MS}) == ["removal_and_registration"]
    assert raced(closed, WIPE, {"e1": 995 * MS}) == []
    assert raced(WIPE, closed, {}) == []


def test_only_the_first_end_of_a_connection_races() -> None:
    """A recording may say twice that a connection ended; what it took down went with the first."""
    again = [TimedEvent((1_000 + no) * MS, f"x{no}", 0, events.ChannelDestroyed("old", "a:50000")) for no in (0, 1)]
    late = TimedEvent(1_005 * MS, "e2", 0, register())
    assert [race.timed_events for race in races_of(day_of([*again, late], {"e2": 995 * MS}))] == [(again[0], late)]

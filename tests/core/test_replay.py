"""The loop: order, and the scans in between; where they fall: `scenarios/timer.txt`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from namesrv_core import Namesrv, Registry
from namesrv_core.machine import events
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, NamesrvConfig, Profile
from namesrv_core.machine.schedule import Hold, ScanEpoch, ScanSchedule
from namesrv_core.machine.step import step
from namesrv_core.machine.tables import DataVersion, LiveKey, QueueData, TopicConfig, TopicTable
from namesrv_core.replay.loop import OrderError, Taken, TimedEvent, replay, scan_id, take

MASTER = "10.0.0.1:10911"
TOPICS = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
MS = 1_000_000


def register(cluster: str = "C", name: str = "broker-a", channel: str | None = "c0") -> events.RegisterBroker:
    return events.RegisterBroker(cluster, MASTER, name, 0, None, DataVersion(0, 1, 1), TOPICS, None, channel)


def at(ms: int, event: events.Event, no: int = 0) -> TimedEvent:
    return TimedEvent(ms * MS + no, f"e{ms}-{no}", ms * 1_000, event)


def taken(profile: Profile, timed_events: Iterable[TimedEvent], until_ms: int | None = None) -> list[Taken]:
    namesrv = Namesrv(profile)
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms)
    until = None if until_ms is None else until_ms * MS
    return list(replay(Registry(profile), timed_events, namesrv, schedule, namesrv_id="ns", span=(0, until)))


def test_events_must_increase() -> None:
    """The error names both positions, both events and the name server."""
    same = [at(2, register(), no=1), at(2, register(), no=1)]
    with pytest.raises(OrderError, match=r"seq 2000001 \(e2-1\) after 2000001 \(e2-1\) at ns: events must be strictly"):
        taken(V4_9_7, same)
    with pytest.raises(OrderError):
        taken(V4_9_7, [at(2, register()), at(1, register())])


def test_events_of_one_position_go_by_their_id() -> None:
    """Equal positions are allowed where the ids increase."""
    one, two = TimedEvent(5, "a", 0, register()), TimedEvent(5, "b", 0, register())
    assert [t.timed.event_id for t in taken(V4_9_7, [one, two])] == ["a", "b"]
    with pytest.raises(OrderError):
        taken(V4_9_7, [two, one])


@pytest.mark.parametrize(("past", "lease_end_ms"), [(None, 180_000), (Past(0), 121_000)], ids=["known", "unknown"])
def test_a_renewed_lease_is_waited_for_where_the_past_is_known(past: Past | None, lease_end_ms: int) -> None:
    """A tick that expires nothing changes nothing; but it settles what may have gone unseen."""
    registry, namesrv = Registry(V4_9_7), Namesrv(V4_9_7)
    for at_ms in (1_000, 60_000):
        take(registry, register(), at_ms, namesrv)
    registry.past = past
    assert registry.next_lease_end() == lease_end_ms
    assert registry.broker_live_table.expired_at(180_000) == []
    assert registry.broker_live_table.expired_at(180_001) == [LiveKey(None, MASTER)]
    assert registry.next_lease_end() is None


def test_scan_id_tells_name_server_and_tick() -> None:
    """As long as every event id, the same in every replay, and another one for each name server and tick."""
    assert scan_id("ns", 5) == scan_id("ns", 5)
    assert len({scan_id("ns", 5), scan_id("ns", 6), scan_id("other", 5)}) == 3
    assert len(scan_id("ns", 5)) == 32
    _, scanned = taken(V4_9_7, [at(1_000, register())], until_ms=200_000)
    tick = 125_000 * MS
    assert scanned.timed == TimedEvent(tick, scan_id("ns", tick), tick // 1_000, events.ScanNotActiveBroker())


@pytest.mark.parametrize(("hold_s", "is_next_seen"), [((124, 128), False), ((124, 132), True)])
def test_a_scan_that_waits_for_the_lock_does_not_look_back(hold_s: tuple[int, int], is_next_seen: bool) -> None:  # noqa: FBT001
    """A lease that ends meanwhile is seen if its entry comes behind the one in hand, or if the timer has ticked once more."""
    namesrv = Namesrv(V5_4_0)
    first, second = (LiveKey("C", f"10.0.0.{n}:10911") for n in (2, 1))  # as the map has them
    held = [Hold(*(second * 1_000 * MS for second in hold_s))]
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms, holds=held)
    for in_hand, other in ((first, second), (second, first)):
        beats = [
            at(ms, register(name=f"b{key.broker_addr}", channel=key.broker_addr)._replace(broker_addr=key.broker_addr))
            for ms, key in ((1_000, in_hand), (6_000, other))
        ]
        registry = Registry(V5_4_0)
        _, _, *scans = replay(registry, beats, namesrv, schedule, span=(0, (hold_s[1] + 1) * 1_000 * MS))
        assert [scan.timed.seq for scan in scans] == [hold_s[1] * 1_000 * MS + 1_000]
        assert [*registry.broker_live_table] == ([] if in_hand == first or is_next_seen else [other])


def test_without_a_schedule_no_scan_runs() -> None:
    """A recording that brings its own scans needs none in between."""
    namesrv = Namesrv(V4_9_7)
    found = list(replay(Registry(V4_9_7), [at(1_000, register())], namesrv, span=(0, 10**18)))
    assert len(found) == 1


def test_scan_period_may_be_configured() -> None:
    """5.4.0's scanNotActiveBrokerInterval; by default each generation has its own."""
    assert Namesrv(V4_9_7).scan_period_ms == 10_000
    assert Namesrv(V5_4_0).scan_period_ms == 5_000
    assert Namesrv(V5_4_0, NamesrvConfig(scan_period_ms=700)).scan_period_ms == 700


def test_something_that_is_no_event_is_an_error() -> None:
    """The dispatch has no default."""
    with pytest.raises(KeyError):
        step(Registry(V4_9_7), QueueData(1, 1, 6, 0), 0, Namesrv())  # type: ignore[arg-type]

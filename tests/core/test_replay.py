"""The loop: order, the scans in between, and where they fall."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv_core import Namesrv, Outcome, Registry
from namesrv_core.machine import events
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import V4_9_7, V5_4_0, NamesrvConfig, Profile
from namesrv_core.machine.rows import DataVersion, LiveKey, QueueData, TopicConfig, TopicTable
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_core.machine.step import step
from namesrv_core.replay import loop
from namesrv_core.replay.loop import OrderError, Taken, TimedEvent, replay, scan_id
from namesrv_core.replay.take import take
from tests.core.adversary import EVENTS, NAMESRVS, PAUSES_MS, understood_by, weighted
from tests.examples import examples

MASTER = "10.0.0.1:10911"
TOPICS = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
MS = 1_000_000


def register(cluster: str = "C", name: str = "broker-a", channel: str | None = "c0") -> events.RegisterBroker:
    return events.RegisterBroker(cluster, MASTER, name, 0, None, DataVersion(0, 1, 1), TOPICS, None, channel)


def at(ms: int, event: events.Event, no: int = 0) -> TimedEvent:
    return TimedEvent(ms * MS + no, f"e{ms}-{no}", ms * 1_000, event)


def taken(
    profile: Profile, timed_events: Iterable[TimedEvent], until_ms: int | None = None, closes: tuple[int, ...] = ()
) -> list[Taken]:
    namesrv = Namesrv(profile)
    phase_us = closes[0] // 1_000 % (namesrv.scan_period_ms * 1_000) if closes else None
    schedule = ScanSchedule([ScanEpoch(0, 0, phase_us)], namesrv.scan_period_ms, closes)
    until = None if until_ms is None else until_ms * MS
    return list(replay(Registry(profile), timed_events, namesrv, schedule, namesrv_id="ns", span=(0, until)))


def test_events_must_increase() -> None:
    """The error names both positions, both events and the name server."""
    same = [at(2, register(), no=1), at(2, register(), no=1)]
    with pytest.raises(OrderError, match=r"seq 2000001 \(e2-1\) after 2000001 \(e2-1\) at ns: events must be strictly"):
        taken(V4_9_7, same)
    with pytest.raises(OrderError):
        taken(V4_9_7, [at(2, register()), at(1, register())])


@pytest.mark.parametrize(("profile", "is_known"), [(V4_9_7, False), (V5_4_0, True)])
def test_requests_of_5x_do_nothing_to_4x(profile: Profile, is_known: bool) -> None:  # noqa: FBT001
    """4.9.7 has neither light heartbeats nor topics registered one by one: not even a lease is renewed."""
    beat = events.BrokerHeartbeat("C", MASTER)
    put = events.RegisterTopic("V", (("broker-a", QueueData(1, 1, 6, 0)),))
    sent = [at(1, register()), at(100_000, beat), at(100_001, put)]
    steps = [each.step for each in taken(profile, sent, 150_000)]
    assert [bool(step.refreshed or step.changes) for step in steps[1:3]] == [is_known, is_known]
    assert steps[-1].outcome == (Outcome.APPLIED if is_known else Outcome.EXPIRED)
    run = taken(profile, [at(1, register()), at(2, events.RefreshRun(beat))])[-1].step
    assert run.outcome is (Outcome.REFRESHED if is_known else Outcome.NO_EFFECT)


def test_events_of_one_position_go_by_their_id() -> None:
    """Equal positions are allowed where the ids increase."""
    one, two = TimedEvent(5, "a", 0, register()), TimedEvent(5, "b", 0, register())
    assert [t.timed.event_id for t in taken(V4_9_7, [one, two])] == ["a", "b"]
    with pytest.raises(OrderError):
        taken(V4_9_7, [two, one])


def test_scan_takes_a_silent_broker_down() -> None:
    """Registered at 1 s, the lease ends at 121 s; the scans run at 5, 15, ... 125 s."""
    _, scanned = taken(V4_9_7, [at(1_000, register())], until_ms=200_000)
    assert scanned.timed == TimedEvent(
        125_000 * MS, scan_id("ns", 125_000 * MS), 125_000_000, events.ScanNotActiveBroker()
    )
    assert (scanned.step.outcome, scanned.step.closed) == (Outcome.EXPIRED, ("c0",))


@pytest.mark.parametrize(("until_ms", "scans"), [(124_999, 0), (125_000, 0), (125_001, 1)])
def test_scans_end_with_what_is_known(until_ms: int, scans: int) -> None:
    """The end is exclusive: a tick at it belongs to the next day."""
    assert len(taken(V4_9_7, [at(1_000, register())], until_ms=until_ms)) == 1 + scans


def test_without_an_end_nothing_runs_after_the_last_event() -> None:
    """What comes after the last event is not known."""
    assert len(taken(V4_9_7, [at(1_000, register())])) == 1


def test_registration_just_before_the_tick_saves_the_broker() -> None:
    """And just after it, it finds the broker gone."""
    for no, outcomes in [
        (-1, [Outcome.APPLIED, Outcome.REFRESHED]),
        (1, [Outcome.APPLIED, Outcome.EXPIRED, Outcome.APPLIED]),
    ]:
        found = taken(V4_9_7, [at(1_000, register()), at(125_000, register(), no=no)])
        assert [t.step.outcome for t in found] == outcomes


def test_tick_before_its_packet_and_after_the_event_in_between() -> None:
    """The close that a scan sent stands right behind its tick.

    An event between the timer's tick and the packet comes first.
    """
    close = 125_200 * MS
    channel_end = TimedEvent(close, "close", 125_200_000, events.ChannelDestroyed("c0", "10.0.0.1:50000"))
    found = taken(
        V4_9_7, [at(1_000, register()), at(125_100, events.WipeWritePerm("broker-a")), channel_end], closes=(close,)
    )
    assert [t.step.outcome for t in found] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.EXPIRED, Outcome.NO_EFFECT]
    assert found[2].timed.seq == close - 1


def test_renewed_lease_moves_its_end() -> None:
    """A heartbeat in the last scan before the end is enough.

    It is only looked at again when it could have ended.
    """
    beats = [at(ms, events.QueryDataVersion("C", MASTER, DataVersion(0, 1, 1))) for ms in (60_000, 120_000, 180_000)]
    found = taken(V4_9_7, [at(1_000, register()), *beats], until_ms=400_000)
    assert [t.step.outcome for t in found[1:]] == [Outcome.REFRESHED] * 3 + [Outcome.EXPIRED]
    assert found[-1].timed.effect_us == 305_000_000


def test_ghost_does_not_keep_the_scan_busy() -> None:
    """5.4.0 cannot remove an entry of another cluster's group.

    One try, and none again until something has changed.
    """
    ghost = [at(1_000, register("C")), at(1_001, register("D"))]
    found = taken(V5_4_0, ghost, until_ms=10**9)
    assert [t.step.outcome for t in found] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.EXPIRED]


def test_ghost_is_tried_again_after_a_change() -> None:
    """Once a group of the entry's own cluster has the address, the next scan takes the entry down."""
    regroup = at(300_000, register("D", "broker-b"))
    unrelated = at(400_000, events.PutKvConfig("N", "k", "v"))
    ghost = [at(1_000, register("C")), at(1_001, register("D")), regroup, unrelated]
    found = taken(V5_4_0, ghost, until_ms=600_000)
    scans = [t for t in found if isinstance(t.timed.event, events.ScanNotActiveBroker)]
    assert [t.timed.effect_us // 1_000 for t in scans] == [125_000, 425_000]
    assert LiveKey("D", MASTER) in [change.key for change in scans[-1].step.changes]


def regrouped_ghost() -> list[TimedEvent]:
    """5.4.0: the address of (C, MASTER) leaves its group, its lease ends, and later another id of the group has it."""
    other = register()._replace(broker_addr="10.0.0.2:10911", channel_id="c1")
    beats = [at(ms, events.BrokerHeartbeat("C", "10.0.0.2:10911")) for ms in (100_000, 200_000)]
    again = register("D", channel="c2")._replace(broker_id=1)
    return [at(1_000, register()), at(1_001, other), beats[0], at(130_000, again), beats[1]]


def test_ghost_is_met_by_the_next_scan_after_its_group_has_the_address_again() -> None:
    """5.4.0: the live entry that no group explained at 125 s is taken down at 135 s, long before any other lease ends."""
    found = taken(V5_4_0, regrouped_ghost(), until_ms=240_000)
    (scanned,) = (t for t in found if isinstance(t.timed.event, events.ScanNotActiveBroker))
    assert scanned.timed.effect_us == 135_000_000
    assert [change.key for change in scanned.step.changes] == [LiveKey("C", MASTER), ("broker-a",)]


def test_ghost_is_met_in_the_next_part_of_a_replay_too() -> None:
    """A replay that goes on with the same registry scans where an undivided one would have scanned."""
    namesrv, registry = Namesrv(V5_4_0), Registry(V5_4_0)
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms)
    first, second = regrouped_ghost()[:4], regrouped_ghost()[4:]
    list(replay(registry, first, namesrv, schedule, span=(0, 134_000 * MS)))
    found = replay(registry, second, namesrv, schedule, span=(134_000 * MS, 240_000 * MS))
    assert [t.step.outcome for t in found] == [Outcome.EXPIRED, Outcome.REFRESHED]


def test_process_that_is_seen_first_while_a_lease_has_ended_scans_at_its_own_ticks() -> None:
    """The tick at 125 s is not waited for: from 121.5 s on there is one at 123 s."""
    namesrv = Namesrv(V4_9_7)
    epochs = [ScanEpoch(0, 0), ScanEpoch(121_500 * MS, 118_000 * MS)]
    schedule = ScanSchedule(epochs, namesrv.scan_period_ms)
    nothing = [at(ms, events.WipeWritePerm("none")) for ms in (121_400, 121_600, 124_000)]
    found = replay(Registry(V4_9_7), [at(1_000, register()), *nothing], namesrv, schedule)
    assert [t.timed.effect_us for t in found] == [1_000_000, 121_400_000, 121_600_000, 123_000_000, 124_000_000]


class LooksAlways(loop.Scans):
    """Ticks that are looked for before each event, whether or not something could expire."""

    @property
    def none_before(self) -> int:
        """Return what never keeps the loop from looking."""
        return -1

    @none_before.setter
    def none_before(self, _: int) -> None:
        """Forget it."""


ADDRS = st.sampled_from([MASTER, "10.0.0.2:10911", "10.0.0.3:10911"])
MASTERS = st.builds(
    lambda addr, timeout_ms: register(name=addr, channel=addr)._replace(
        broker_addr=addr, heartbeat_timeout_ms=timeout_ms
    ),
    ADDRS,
    st.sampled_from([None, 10_000, 30_000]),
)
BEATS = st.builds(events.QueryDataVersion, st.just("C"), ADDRS, st.just(DataVersion(0, 1, 1)))


@settings(max_examples=examples(300))
@given(
    NAMESRVS,
    st.lists(st.tuples(weighted([(4, MASTERS), (4, BEATS), (2, EVENTS)]), PAUSES_MS | st.just(6_000)), max_size=12),
    st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 9_999)), max_size=3),
)
def test_ticks_are_looked_for_no_more_often_than_they_matter(
    namesrv: Namesrv, said: list[tuple[events.Event, int]], starts: list[tuple[int, int]]
) -> None:
    """Leases that are renewed, ghosts, processes that start in between: what is not looked for would not be found."""
    at_ms, log = 0, []
    for number, (event, pause) in enumerate(said):
        at_ms += pause
        if understood_by(namesrv, event):
            log.append(at(at_ms, event, number))
    epochs = [ScanEpoch(0, 0)]
    epochs += [ScanEpoch(ms * MS, (ms + phase) * MS) for ms, phase in starts]
    schedule = ScanSchedule(epochs, namesrv.scan_period_ms)

    def replayed() -> list[Taken]:
        return list(replay(Registry(namesrv.profile), log, namesrv, schedule, span=(0, (at_ms + 400_000) * MS)))

    found = replayed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Scans", LooksAlways)
        assert replayed() == found


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


def test_scan_reads_the_clock_in_whole_milliseconds() -> None:
    """A tick half a millisecond after a deadline comes within the deadline's millisecond: that broker lives."""
    namesrv = Namesrv(V4_9_7)
    late = register(name="broker-b")._replace(broker_addr="10.0.0.2:10911", channel_id="c1")
    schedule = ScanSchedule([ScanEpoch(0, MS // 2 + 1)], namesrv.scan_period_ms)
    log = [at(1_000, register()), at(5_000, late)]
    found = list(replay(Registry(V4_9_7), log, namesrv, schedule, namesrv_id="ns", span=(0, 130_000 * MS)))
    assert [t.step.closed for t in found[2:]] == [("c0",)]
    assert (found[2].timed.seq, found[2].timed.effect_us) == (125_000 * MS + MS // 2 + 1, 125_000_500)


def test_scan_id_tells_name_server_and_tick() -> None:
    """As long as every event id, the same in every replay, and another one for each name server and tick."""
    assert scan_id("ns", 5) == scan_id("ns", 5)
    assert len({scan_id("ns", 5), scan_id("ns", 6), scan_id("other", 5)}) == 3
    assert len(scan_id("ns", 5)) == 32


def test_scan_that_threw_never_runs_again() -> None:
    """4.9.7: the brokers that are silent afterwards stay."""
    silent = [
        at(0, register()._replace(broker_addr="10.0.0.4:10911", broker_name="broker-d", channel_id="shared")),
        at(60_000, register()._replace(broker_addr="10.0.0.2:10911", broker_name="broker-b", channel_id="shared")),
        at(60_001, register()),
    ]
    found = taken(V4_9_7, silent, until_ms=10**7)
    assert [t.step.outcome for t in found[3:]] == [Outcome.SCAN_FAILED]
    again = taken(V4_9_7, [*silent, at(10**7, events.NamesrvStarted()), at(10**7 + 1, register())], until_ms=2 * 10**7)
    assert [t.step.outcome for t in again[3:]] == [
        Outcome.SCAN_FAILED, Outcome.STARTED, Outcome.APPLIED, Outcome.EXPIRED,
    ]  # fmt: skip


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

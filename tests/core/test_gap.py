"""A gap in the recording: what is believed afterwards, and what is not made up."""

from __future__ import annotations

import pytest

from namesrv_core import Namesrv, Outcome, Registry
from namesrv_core.asking.answers import answer
from namesrv_core.machine import events
from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.rows import DataVersion, LiveKey, TopicConfig, TopicTable
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_core.replay.loop import Taken, TimedEvent, replay

TOPICS = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
MS = 1_000_000


def at(ms: int, event: events.Event) -> TimedEvent:
    """Return an event at an instant."""
    return TimedEvent(ms * MS, f"e{ms:08d}", ms * 1_000, event)


def broker(name: str, timeout_ms: int | None = None) -> events.RegisterBroker:
    """Return a registration of a master."""
    addr = f"10.0.0.{ord(name)}:10911"
    version = DataVersion(0, 1, 1)
    return events.RegisterBroker(
        "C", addr, f"broker-{name}", 0, None, version, TOPICS, None, f"channel-{name}", heartbeat_timeout_ms=timeout_ms
    )


def run(profile: Profile, *timed: TimedEvent, until_ms: int) -> tuple[Registry, list[Taken]]:
    """Replay events with scans up to an instant."""
    registry, namesrv = Registry(profile), Namesrv(profile)
    schedule = ScanSchedule([ScanEpoch(0, 0)], namesrv.scan_period_ms)
    return registry, list(replay(registry, timed, namesrv, schedule, namesrv_id="ns", span=(0, until_ms * MS)))


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_no_broker_expires_in_a_gap(profile: Profile) -> None:
    """Ten minutes without a record take nobody down; who does not show up within a lease after it goes then."""
    gap = at(60_000, events.RecordingGap(660_000))
    beats = [at(1_000, broker("a")), at(2_000, broker("b")), gap, at(670_000, broker("a"))]
    registry, taken = run(profile, *beats, until_ms=780_000)
    assert [t.step.outcome for t in taken][2] == Outcome.UNRECORDED
    assert [t.timed.effect_us for t in taken if t.step.outcome == Outcome.EXPIRED] == []
    registry, taken = run(profile, *beats, until_ms=789_000)
    (expired,) = [t for t in taken if t.step.outcome == Outcome.EXPIRED]
    assert 780_000 < expired.timed.effect_us // 1_000 <= 790_000
    assert list(registry.broker_addr_table) == ["broker-a"]


def test_a_lease_that_had_ended_before_is_no_matter_of_the_gap() -> None:
    """The broker's last beat is 119 s old where the gap begins: it may live. At 121 s its next scan takes it."""
    for begin_ms, expires in ((120_000, False), (121_500, True)):
        beat, gap = at(1_000, broker("a")), at(begin_ms, events.RecordingGap(600_000))
        _, taken = run(V4_9_7, beat, gap, until_ms=500_000)
        assert [t.timed.seq // MS for t in taken if t.step.outcome == Outcome.EXPIRED] == [125_000] * expires


def test_a_longer_lease_is_not_cut_by_a_gap() -> None:
    """What was renewed after the gap's end keeps its time."""
    registry, _ = run(
        V5_4_0, at(9_000, broker("a", 1_000_000)), at(10_000, events.RecordingGap(9_500)), until_ms=11_000
    )
    assert registry.last_update_ms == {LiveKey("C", "10.0.0.97:10911"): 9_500}


def test_after_a_gap_everything_is_only_believed() -> None:
    """As where a recording begins in mid-life: an event makes its rows known, the rest waits."""
    gap = at(60_000, events.RecordingGap(660_000))
    registry, _ = run(V4_9_7, at(1_000, broker("a")), at(2_000, broker("b")), gap, until_ms=661_000)
    assert registry.past is not None
    assert registry.past.from_ms == 660_000
    assert not registry.past.knows("broker_addr", "broker-a", 0)
    registry, _ = run(V4_9_7, at(1_000, broker("a")), gap, at(670_000, broker("a")), until_ms=671_000)
    assert registry.past is not None
    assert registry.past.knows("broker_addr", "broker-a", 0)


def test_an_answer_says_nothing_of_the_version_that_an_entry_had_before_a_gap() -> None:
    """It shows the broker; whether its next registration has another version than the last one in the gap nobody knows.

    So its topics may have been written then, and a wiped permission may have stayed as an answer has shown it.
    """
    gap = at(60_000, events.RecordingGap(660_000))
    registry, _ = run(V4_9_7, at(1_000, broker("a")), until_ms=2_000)
    question = Question(105, "T")
    wiped = str(answer(registry, question, Namesrv(V4_9_7)).body).replace('"perm":6', '"perm":4')
    shown = at(661_000, events.AnswerObserved(question, Answer(0, wiped), 661_000 * MS))
    beat = at(670_000, broker("a")._replace(data_version=DataVersion(0, 7, 7)))
    registry, _ = run(V4_9_7, at(1_000, broker("a")), gap, shown, beat, until_ms=671_000)
    assert registry.past is not None
    assert registry.past.knows("broker_addr", "broker-a", 0)
    assert not registry.past.knows("topic_queue", "T", "broker-a")

"""When a process scans, told by answers alone: no packet shows it."""

from __future__ import annotations

import pytest

from namesrv_core.inference import evidence
from namesrv_core.inference.evidence import Seen, Told
from namesrv_core.inference.races import Day
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule, Timer
from tests.core.test_decisions import MS, day, explained_by, polled, registration, topics

PERIOD_MS = 10_000
LEASE_MS = 120_000
GUESS = Timer(PERIOD_MS * MS, 5_000 * MS, is_guess=True)


def gone_at(tick_ms: int, poll_ms: int = 1_000, last_beat_ms: int = 7_000) -> Day:
    """One broker beats for the last time and its packet is lost when a scan takes it; topics are polled."""
    until = last_beat_ms + LEASE_MS + PERIOD_MS + 5_000
    answers = [
        (ms, topics("T", "TBW102") if ms < tick_ms else topics()) for ms in range(last_beat_ms + 50, until, poll_ms)
    ]
    return day([registration(last_beat_ms, "r")], polled(answers))._replace(until_seq=until * MS)


def told_of(one: Day, *, until_ms: int = 200_000) -> list[Told]:
    """Return what answers tell of the broker whose lease ended, until something else may have been the reason."""
    there, lease_end_ms = topics("T", "TBW102"), 7_000 + LEASE_MS
    seen = [
        Seen((lease_end_ms + 1) * MS, until_ms * MS, of.request_seq, of.seq, of.event_id, stands=of.answered == there)
        for of in one.observations()
        if lease_end_ms * MS < of.request_seq and of.seq <= until_ms * MS
    ]
    return [told for each in seen for told in evidence.told_by(each, PERIOD_MS * MS)]


def phases_of(one: Day) -> set[object]:
    timer = one.schedule.timer_at(0)
    assert timer is not None
    return {vote.value for vote in evidence.phase_votes(told_of(one), timer)}


def test_answers_tell_between_which_of_them_a_scan_ran() -> None:
    """Polled once a second they leave a second open; its middle is taken, and then all of them are explained."""
    one = gone_at(133_300)
    assert len(explained_by(one)) < len(one.observations()), "a guess removes it at 130 s"
    (phase_us,) = phases_of(one)
    assert isinstance(phase_us, int)
    assert abs(phase_us - 3_550_000) <= 1
    known = ScanSchedule([ScanEpoch(0, 0, phase_us)], PERIOD_MS)
    assert len(explained_by(one._replace(schedule=known))) == len(one.observations())


def test_a_guess_that_nothing_contradicts_stays() -> None:
    """The scan at 130 s, or 135 s with the schedule's delay, lies between the same two answers."""
    tick = ScanSchedule([ScanEpoch(0, 0)], PERIOD_MS).first_tick(0, 7_000 + LEASE_MS)
    assert tick is not None
    assert phases_of(gone_at(tick // MS)) == set()


def test_what_most_answers_allow_is_taken_and_the_rest_is_said() -> None:
    """Two that allow no tick but at 2 to 3 s outvote one that allows none; the one is a vote for another phase."""
    told = [
        Told(2_000 * MS, 3_000 * MS, 1, "a"),
        Told(12_000 * MS, 13_500 * MS, 2, "b"),
        Told(7_000 * MS, 8_000 * MS, 3, "c"),
    ]
    votes = list(evidence.phase_votes(told, GUESS))
    assert [(vote.value, vote.event_id) for vote in votes] == [(2_500_000, "a"), (2_500_000, "b"), (7_500_000, "c")]


@pytest.mark.parametrize(("from_ms", "until_ms", "phase_us"), [(9_500, 10_500, 0), (8_000, 9_000, 8_500_000)])
def test_a_stretch_may_go_over_the_end_of_a_period(from_ms: int, until_ms: int, phase_us: int) -> None:
    """Its middle is the middle of both parts."""
    (vote,) = evidence.phase_votes([Told(from_ms * MS, until_ms * MS, 1, "a")], GUESS)
    assert vote.value == phase_us


def test_a_late_packet_is_corrected_as_far_as_answers_demand() -> None:
    """A phase that a close shows gives way to the latest one before it that they allow, not to the middle."""
    told = [Told(2_000 * MS, 3_000 * MS, 1, "a"), Told(12_500 * MS, 13_500 * MS, 2, "b")]
    assert {vote.value for vote in evidence.phase_votes(told, GUESS)} == {2_750_000}
    shown = Timer(PERIOD_MS * MS, 23_004 * MS, is_guess=False)
    assert {vote.value for vote in evidence.phase_votes(told, shown)} == {3_000_000}


def test_answers_far_from_a_lease_tell_nothing() -> None:
    """What differs longer than a period after the lease that ended is no matter of evidence."""
    told = told_of(gone_at(133_300))
    assert told
    assert all(0 < one.until_seq - one.from_seq < PERIOD_MS * MS for one in told)
    assert (
        max(one.seq for one in told)
        <= (7_000 + LEASE_MS + PERIOD_MS + 1) * MS
        < gone_at(133_300).observations()[-1].seq
    )


def test_nobody_scans_before_the_first_start() -> None:
    """There is no timer that an answer could tell something of."""
    schedule = ScanSchedule([ScanEpoch(500_000 * MS, 500_000 * MS)], PERIOD_MS)
    assert schedule.timer_at(400_000 * MS) is None


def refreshed(tick_ms: int, beat_ms: int) -> Day:
    """One broker whose lease ends at 127 s; it beats again at `beat_ms`: if a scan ran before, it was gone until then."""
    last_beat_ms, until = 7_000, 160_000
    again = registration(beat_ms, "again")
    was_gone = tick_ms < beat_ms
    answers = [
        (ms, topics() if was_gone and tick_ms <= ms < beat_ms else topics("T", "TBW102"))
        for ms in range(last_beat_ms + 50, until, 500)
    ]
    return day([registration(last_beat_ms, "r"), again], polled(answers))._replace(until_seq=until * MS)


@pytest.mark.parametrize(("tick_ms", "from_ms", "until_ms"), [(129_000, 127_001, 129_050), (134_000, 131_550, 137_001)])
def test_a_beat_between_the_earliest_and_the_latest_scan_bounds_what_answers_tell(
    tick_ms: int, from_ms: int, until_ms: int
) -> None:
    """Whether it was gone until it beat, at 132 s, tells when a scan had run by, or had not until then; nothing later does."""
    told = told_of(refreshed(tick_ms, 132_000), until_ms=132_000)
    assert told
    tightest = min(told, key=lambda one: one.until_seq - one.from_seq)
    assert (round(tightest.from_seq / MS), round(tightest.until_seq / MS)) == (from_ms, until_ms)
    assert all(one.allows(tick_ms * MS, PERIOD_MS * MS) for one in told)
    assert all(one.seq <= 132_100 * MS for one in told)

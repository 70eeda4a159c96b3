"""When a process scans, told by answers alone: no packet shows it."""

from __future__ import annotations

import pytest

from namesrv_core.inference import evidence
from namesrv_core.inference.evidence import TickWindow
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


def windows_of(one: Day) -> list[TickWindow]:
    """Return what answers tell of the broker whose lease ended: that it stands, or that it is gone, less than a period later."""
    there, ended = topics("T", "TBW102"), (7_000 + LEASE_MS) * MS
    until = ended + PERIOD_MS * MS
    return [
        TickWindow(of.request_seq, until, of.seq, of.event_id)
        if of.answered == there
        else TickWindow(ended, of.seq, of.seq, of.event_id)
        for of in one.observations()
        if ended < of.request_seq and of.seq < until
    ]


def phases_of(one: Day) -> set[object]:
    timer = one.schedule.timer_at(0)
    assert timer is not None
    return {vote.value for vote in evidence.phase_votes(windows_of(one), timer)}


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
        TickWindow(2_000 * MS, 3_000 * MS, 1, "a"),
        TickWindow(12_000 * MS, 13_500 * MS, 2, "b"),
        TickWindow(7_000 * MS, 8_000 * MS, 3, "c"),
    ]
    votes = list(evidence.phase_votes(told, GUESS))
    assert [(vote.value, vote.event_id) for vote in votes] == [(2_500_000, "a"), (2_500_000, "b"), (7_500_000, "c")]


@pytest.mark.parametrize(("from_ms", "until_ms", "phase_us"), [(9_500, 10_500, 0), (8_000, 9_000, 8_500_000)])
def test_a_stretch_may_go_over_the_end_of_a_period(from_ms: int, until_ms: int, phase_us: int) -> None:
    """Its middle is the middle of both parts."""
    (vote,) = evidence.phase_votes([TickWindow(from_ms * MS, until_ms * MS, 1, "a")], GUESS)
    assert vote.value == phase_us


def test_a_late_packet_is_corrected_as_far_as_answers_demand() -> None:
    """A phase that a close shows gives way to the latest one before it that they allow, not to the middle."""
    told = [TickWindow(2_000 * MS, 3_000 * MS, 1, "a"), TickWindow(12_500 * MS, 13_500 * MS, 2, "b")]
    assert {vote.value for vote in evidence.phase_votes(told, GUESS)} == {2_750_000}
    shown = Timer(PERIOD_MS * MS, 23_004 * MS, is_guess=False)
    assert {vote.value for vote in evidence.phase_votes(told, shown)} == {3_000_000}


def test_what_has_gone_without_a_scan_is_no_vote_for_another_phase() -> None:
    """Where a close shows the phase, many answers about one broker that no scan took say nothing of the timer."""
    told = [TickWindow(2_000 * MS, 3_000 * MS, 1, "a")]
    told += [TickWindow(7_000 * MS, (7_500 + n) * MS, 2, f"b{n}") for n in range(9)]
    shown = Timer(PERIOD_MS * MS, 23_004 * MS, is_guess=False)
    assert [vote.value for vote in evidence.phase_votes(told, shown)] == [3_000_000]


def test_nobody_scans_before_the_first_start() -> None:
    """There is no timer that an answer could tell something of."""
    schedule = ScanSchedule([ScanEpoch(500_000 * MS, 500_000 * MS)], PERIOD_MS)
    assert schedule.timer_at(400_000 * MS) is None

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
GUESS, SHOWN = Timer(PERIOD_MS * MS, 5_000 * MS, is_guess=True), Timer(PERIOD_MS * MS, 23_004 * MS, is_guess=False)


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


BOTH = [(2_000, 3_000), (12_500, 13_500)]


@pytest.mark.parametrize(
    ("timer", "windows_ms", "phases_us"),
    [
        pytest.param(GUESS, [(2_000, 3_000), (12_000, 13_500), (7_000, 8_000)], [2_500_000, 2_500_000, 7_500_000], id="most"),
        pytest.param(GUESS, [(9_500, 10_500)], [0], id="over the end of a period"),
        pytest.param(GUESS, [(8_000, 9_000)], [8_500_000], id="middle"),
        pytest.param(GUESS, BOTH, [2_750_000] * 2, id="of both"),
        pytest.param(SHOWN, BOTH, [3_000_000] * 2, id="late packet"),
        pytest.param(SHOWN, [(2_000, 3_000), *((7_000, 7_500 + n) for n in range(9))], [3_000_000], id="gone without a scan"),
    ],
)  # fmt: skip
def test_the_middle_of_what_most_answers_allow_is_taken(
    timer: Timer, windows_ms: list[tuple[int, int]], phases_us: list[int]
) -> None:
    """One that they outvote is a vote for another phase. A stretch over the end of a period has its middle in both parts.

    A phase that a close shows gives way to the latest one before it that they allow, not to the middle; beside it, answers about
    one broker that no scan took say nothing of the timer, however many.
    """
    told = [TickWindow(since * MS, until * MS, n, f"{n}") for n, (since, until) in enumerate(windows_ms)]
    votes = [(vote.event_id, vote.value) for vote in evidence.phase_votes(told, timer)]
    assert votes == [(f"{n}", phase_us) for n, phase_us in enumerate(phases_us)]


def test_nobody_scans_before_the_first_start() -> None:
    """There is no timer that an answer could tell something of."""
    schedule = ScanSchedule([ScanEpoch(500_000 * MS, 500_000 * MS)], PERIOD_MS)
    assert schedule.timer_at(400_000 * MS) is None

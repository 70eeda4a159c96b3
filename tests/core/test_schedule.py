"""When the scan runs: the timer, and the packets that correct it."""

from __future__ import annotations

import pytest

from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, ScanEpoch, ScanSchedule

SECOND = 1_000_000_000
PERIOD_MS = 10_000


def schedule(*epochs: ScanEpoch, closes: tuple[int, ...] = ()) -> ScanSchedule:
    return ScanSchedule(epochs or (ScanEpoch(0, 0, phase_known=True),), PERIOD_MS, closes)


def test_first_scan_is_five_seconds_after_the_start() -> None:
    """Then one each period; a tick is strictly after the position that it is asked for."""
    ticks = schedule()
    assert ticks.first_tick(0, 0) == 5 * SECOND
    assert ticks.first_tick(5 * SECOND - 1, 0) == 5 * SECOND
    assert ticks.first_tick(5 * SECOND, 0) == 15 * SECOND


@pytest.mark.parametrize(
    ("lease_end_ms", "tick_s"),
    [(14_999, 15), (15_000, 25), (15_001, 25)],
    ids=["before the tick", "at the tick", "after the tick"],
)
def test_lease_that_ends_with_a_tick_outlives_it(lease_end_ms: int, tick_s: int) -> None:
    """Expiry compares with `<`: the tick at the deadline itself is too early."""
    assert schedule().first_tick(0, lease_end_ms) == tick_s * SECOND


def test_no_tick_before_the_first_epoch() -> None:
    """A name server that has not started scans nothing."""
    ticks = schedule(ScanEpoch(100 * SECOND, 100 * SECOND, phase_known=True))
    assert ticks.first_tick(0, 0) is None
    assert ScanSchedule([], PERIOD_MS).first_tick(0, 0) is None


def test_restart_starts_the_timer_anew() -> None:
    """The epoch of the position counts, in whatever order the epochs are given."""
    ticks = schedule(ScanEpoch(102 * SECOND, 102 * SECOND, phase_known=True), ScanEpoch(0, 0, phase_known=True))
    assert ticks.first_tick(96 * SECOND, 0) == 105 * SECOND
    assert ticks.first_tick(102 * SECOND, 0) == 107 * SECOND


def test_lease_given_after_a_start_is_on_that_starts_timer() -> None:
    """Asked from before the start, the lease itself says which process ran."""
    ticks = schedule(ScanEpoch(100 * SECOND, 100 * SECOND, phase_known=True))
    assert ticks.first_tick(0, 120_000) == 125 * SECOND


def test_close_by_the_server_is_a_tick() -> None:
    """The tick stands just before the packet, and the packet sets the phase of all others."""
    ticks = schedule(closes=(25 * SECOND + 300_000_000,))
    assert ticks.first_tick(15 * SECOND + 300_000_000, 0) == 25 * SECOND + 300_000_000 - 1
    assert ticks.first_tick(0, 0) == 5 * SECOND + 300_000_000
    assert ticks.first_tick(26 * SECOND, 0) == 35 * SECOND + 300_000_000


def test_close_far_from_a_tick_is_none() -> None:
    """With a known start, a close more than 0.75 s off the timer has another reason."""
    ticks = schedule(closes=(28 * SECOND,))
    assert ticks.first_tick(16 * SECOND, 0) == 25 * SECOND


def test_close_at_the_first_tick_calibrates() -> None:
    """The very first scan may be the one that says where the timer stands."""
    ticks = schedule(closes=(5 * SECOND + 200_000_000,))
    assert ticks.first_tick(6 * SECOND, 0) == 15 * SECOND + 200_000_000


def test_close_before_the_first_tick_has_another_reason() -> None:
    """No scan runs in the first five seconds, so a close a period before the first tick is none."""
    ticks = schedule(ScanEpoch(0, 20 * SECOND, phase_known=False), closes=(14 * SECOND,))
    assert ticks.first_tick(20 * SECOND, 0) == 25 * SECOND


@pytest.mark.parametrize(("off_ns", "shift_ns"), [(750_000_000, 750_000_000), (750_000_001, 0)])
def test_phase_is_known_to_three_quarters_of_a_second(off_ns: int, shift_ns: int) -> None:
    """A close just so far off the timer is still its tick; one a nanosecond further is not."""
    ticks = schedule(closes=(25 * SECOND + off_ns,))
    assert ticks.first_tick(30 * SECOND, 0) == 35 * SECOND + shift_ns


def test_single_tick_is_as_late_as_three_quarters_of_a_second() -> None:
    """The same bound holds for the packets after the one that set the phase."""
    for off_ns, tick in [(750_000_000, 45 * SECOND + 750_000_000 - 1), (750_000_001, 45 * SECOND)]:
        ticks = schedule(closes=(25 * SECOND, 45 * SECOND + off_ns))
        assert ticks.first_tick(36 * SECOND, 0) == tick


def test_unknown_phase_may_be_off_by_half_a_period() -> None:
    """Whatever the close, it is less than half a period from some tick."""
    for close_s in (21, 29):
        ticks = schedule(ScanEpoch(0, 0, phase_known=False), closes=(close_s * SECOND,))
        assert ticks.first_tick(30 * SECOND, 0) == (close_s + 10) * SECOND


def test_delay_is_no_period() -> None:
    """With a period of seven seconds: ticks at 5, 12, 19 s, and a close at 19.1 s fits the third."""
    start = ScanEpoch(0, 0, phase_known=True)
    assert ScanSchedule([start], 7_000).first_tick(5 * SECOND, 0) == 12 * SECOND
    moved = ScanSchedule([start], 7_000, (19_100_000_000,))
    assert moved.first_tick(20 * SECOND, 0) == 26_100_000_000


def test_lease_that_ends_in_the_millisecond_of_a_tick_outlives_it() -> None:
    """The server compares whole milliseconds."""
    ticks = schedule(ScanEpoch(0, 500_000, phase_known=True))
    assert ticks.first_tick(0, 5_000) == 15 * SECOND + 500_000


def test_unknown_phase_takes_any_close() -> None:
    """A server that ran before the recording began.

    The first close that a scan explains says when it scans.
    """
    ticks = schedule(ScanEpoch(0, 0, phase_known=False), closes=(28 * SECOND,))
    assert ticks.first_tick(16 * SECOND, 0) == 18 * SECOND
    assert ticks.first_tick(18 * SECOND, 0) == 28 * SECOND - 1
    assert ticks.first_tick(28 * SECOND, 0) == 38 * SECOND


def test_later_packets_move_single_ticks_only() -> None:
    """A tick that came late once does not move the timer."""
    ticks = schedule(closes=(25 * SECOND, 45 * SECOND + 200_000_000))
    assert ticks.first_tick(36 * SECOND, 0) == 45 * SECOND + 200_000_000 - 1
    assert ticks.first_tick(46 * SECOND, 0) == 55 * SECOND


def test_close_of_an_earlier_process_does_not_calibrate_a_later_one() -> None:
    """Each start has its own phase."""
    ticks = schedule(
        ScanEpoch(0, 0, phase_known=True), ScanEpoch(100 * SECOND, 100 * SECOND, phase_known=True),
        closes=(25 * SECOND + 500_000_000,),
    )  # fmt: skip
    assert ticks.first_tick(100 * SECOND, 0) == 105 * SECOND


def test_schedule_is_set_before_the_first_connection() -> None:
    """The measured bound: between 0.045 and 1.03 s."""
    assert 45_000_000 < START_BEFORE_FIRST_ACCEPT_NS < 1_030_000_000

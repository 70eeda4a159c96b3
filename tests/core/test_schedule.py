"""When the scan runs: the timer, and the packets that correct it."""

from __future__ import annotations

import pytest

from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, TICK_LATE_NS, ScanEpoch, ScanSchedule, Stall

SECOND = 1_000_000_000
PERIOD_MS = 10_000


def schedule(*epochs: ScanEpoch, closes: tuple[int, ...] = ()) -> ScanSchedule:
    return ScanSchedule(epochs or (ScanEpoch(0, 0),), PERIOD_MS, closes)


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
    ticks = schedule(ScanEpoch(100 * SECOND, 100 * SECOND))
    assert ticks.first_tick(0, 0) is None
    assert ScanSchedule([], PERIOD_MS).first_tick(0, 0) is None


def test_restart_starts_the_timer_anew() -> None:
    """The epoch of the position counts, in whatever order the epochs are given."""
    ticks = schedule(ScanEpoch(102 * SECOND, 102 * SECOND), ScanEpoch(0, 0))
    assert ticks.first_tick(96 * SECOND, 0) == 105 * SECOND
    assert ticks.first_tick(102 * SECOND, 0) == 107 * SECOND


def test_lease_given_after_a_start_is_on_that_starts_timer() -> None:
    """Asked from before the start, the lease itself says which process ran."""
    ticks = schedule(ScanEpoch(100 * SECOND, 100 * SECOND))
    assert ticks.first_tick(0, 120_000) == 125 * SECOND


def test_the_phase_holds_for_all_ticks() -> None:
    """Also for those before the first packet that tells it: the timer is the same."""
    ticks = schedule(ScanEpoch(0, 0, 5_300_000))
    assert ticks.first_tick(0, 0) == 5 * SECOND + 300_000_000 - 1
    assert ticks.first_tick(26 * SECOND, 0) == 35 * SECOND + 300_000_000 - 1
    assert ticks.knows_phase(0)
    assert not schedule().knows_phase(0)


@pytest.mark.parametrize(("phase_us", "tick_ms"), [(9_900_000, 9_900), (200_000, 10_200), (4_900_000, 4_900)])
def test_ticks_are_the_nearest_to_the_start_that_have_the_phase(phase_us: int, tick_ms: int) -> None:
    """The schedule was set a second before or after it is thought to have been; a tick is never half a period off."""
    ticks = schedule(ScanEpoch(0, 2 * SECOND, phase_us))
    assert ticks.first_tick(0, 0) == tick_ms * 1_000_000 - 1


@pytest.mark.parametrize(("off_ms", "moved_ms"), [(-4, 0), (-3, -3), (0, 0), (120, 120), (299, 299), (301, 0)])
def test_a_late_tick_stands_just_before_its_packet(off_ms: int, moved_ms: int) -> None:
    """It moves neither the timer nor the next tick; a packet that is too far off belongs to no tick."""
    ticks = schedule(ScanEpoch(0, 0, 5_000_000), closes=(25 * SECOND + off_ms * 1_000_000,))
    assert ticks.first_tick(16 * SECOND, 0) == 25 * SECOND + moved_ms * 1_000_000 - 1
    assert ticks.first_tick(26 * SECOND, 0) == 35 * SECOND - 1


def test_a_close_tells_nothing_where_no_phase_is_concluded() -> None:
    """One phase is concluded from all closes; they do not move ticks one by one."""
    assert schedule(closes=(25 * SECOND + 100_000_000,)).first_tick(16 * SECOND, 0) == 25 * SECOND


def test_a_server_that_stood_still_makes_up_for_its_ticks_at_the_end() -> None:
    """A tick of the time between runs when the process goes on, behind what waited, and the timer keeps its phase."""
    ticks = ScanSchedule([ScanEpoch(0, 0)], PERIOD_MS, (), [Stall(14 * SECOND, 38 * SECOND)])
    assert ticks.first_tick(6 * SECOND, 0) == 38 * SECOND + TICK_LATE_NS - 1
    assert ticks.first_tick(20 * SECOND, 38_299) == 45 * SECOND
    assert ticks.first_tick(38 * SECOND + TICK_LATE_NS - 1, 0) == 45 * SECOND


@pytest.mark.parametrize("late", [0, 7_000_000, TICK_LATE_NS])
def test_a_scan_that_a_stall_held_up_is_just_before_its_packet(late: int) -> None:
    """What the server sends before that was worked off before the scan: a beat among it has renewed its lease."""
    closes = (12 * SECOND, 38 * SECOND + late, 38 * SECOND + late + 1)
    ticks = ScanSchedule([ScanEpoch(0, 0)], PERIOD_MS, closes, [Stall(14 * SECOND, 38 * SECOND)])
    assert ticks.first_tick(6 * SECOND, 0) == 38 * SECOND + late - 1


def test_delay_is_no_period() -> None:
    """With a period of seven seconds: ticks at 5, 12, 19 s."""
    start = ScanEpoch(0, 0)
    assert ScanSchedule([start], 7_000).first_tick(5 * SECOND, 0) == 12 * SECOND
    moved = ScanSchedule([ScanEpoch(0, 0, 5_100_000)], 7_000)
    assert moved.first_tick(20 * SECOND, 0) == 26_100_000_000 - 1


def test_lease_that_ends_in_the_millisecond_of_a_tick_outlives_it() -> None:
    """The server compares whole milliseconds."""
    ticks = schedule(ScanEpoch(0, 500_000))
    assert ticks.first_tick(0, 5_000) == 15 * SECOND + 500_000


def test_each_process_has_its_own_phase() -> None:
    """What is known of one says nothing of the next."""
    ticks = schedule(ScanEpoch(0, 0, 5_500_000), ScanEpoch(100 * SECOND, 100 * SECOND))
    assert ticks.first_tick(30 * SECOND, 0) == 35 * SECOND + 500_000_000 - 1
    assert ticks.first_tick(100 * SECOND, 0) == 105 * SECOND
    assert [ticks.knows_phase(seq * SECOND) for seq in (0, 99, 100)] == [True, True, False]


def test_schedule_is_set_before_the_first_connection() -> None:
    """The measured bound: between 0.045 and 1.03 s."""
    assert 45_000_000 < START_BEFORE_FIRST_ACCEPT_NS < 1_030_000_000

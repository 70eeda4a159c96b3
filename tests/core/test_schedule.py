"""When the scan runs: the timer, and the packets that correct it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, Hold, ScanEpoch, ScanSchedule, Stall
from tests.situations import Language, Situation

SECOND = 1_000_000_000


def ns(seconds: float) -> int:
    return round(seconds * SECOND)


def process(since: float | str, set_at: float = 0, phase: float | None = None) -> list[ScanEpoch]:
    if since == "none":
        return []
    return [ScanEpoch(ns(float(since)), ns(set_at), None if phase is None else round(phase * 1_000_000))]


LANGUAGE = Language(
    {
        "process": ("epochs", process),
        "period": ("period", lambda ms: ms),
        "close": ("closes", ns),
        "stall": ("stalls", lambda begin, end: Stall(ns(begin), ns(end))),
        "hold": ("holds", lambda begin, end: Hold(ns(begin), ns(end))),
    },
    {},
    dt.date(1970, 1, 1),
)


@pytest.mark.parametrize(
    "case", [*LANGUAGE.read(Path(__file__).with_name("schedule.txt"))], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_ticks(case: Situation) -> None:
    """The first tick that finds a lease ended, and whether the phase of ticks is known."""
    (period_ms,) = case.rows.get("period", [10_000])
    epochs, closes = case.rows.get("epochs", [ScanEpoch(0, 0)]), tuple(case.rows.get("closes", ()))
    ticks = ScanSchedule(epochs, period_ms, closes, case.rows.get("stalls", []), case.rows.get("holds", []))
    found = []
    for one, other in map(str.split, case.asked):
        if one == "phase":
            found.append("known" if ticks.knows_phase(ns(float(other))) else "unknown")
            continue
        tick = ticks.first_tick(ns(float(one)), round(float(other) * 1_000))
        found.append("never" if tick is None else f"{tick // SECOND}.{tick % SECOND:09}".rstrip("0").rstrip("."))
    assert found == case.found


def test_schedule_is_set_before_the_first_connection() -> None:
    """The measured bound: between 0.045 and 1.03 s."""
    assert 45_000_000 < START_BEFORE_FIRST_ACCEPT_NS < 1_030_000_000

"""The steps of a night, each run alone. What a step commits no reader sees before `publish`.

ingest -> validate -> replay -> flag -> verify -> publish
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from jobs.errors import GateError
from jobs.ingest.ingested import Ingested
from jobs.night.days import asked_days, days_to_do
from jobs.night.gate import measured_small, require_replayed, require_sound
from jobs.night.judging import FLAGS, OUTCOMES, VERIFY, WRITES
from jobs.night.night import Night
from jobs.night.passes import Passes
from jobs.night.publish import Published, note_refused, publish
from jobs.night.work import REPLAYED
from jobs.store.warehouse import Warehouse
from schemas import gold


def replay(house: Warehouse, passes: Passes, days: Sequence[dt.date]) -> list[dt.date]:
    """Replay days, and commit their slices of the replayed tables, namesrv_settings and order_decisions; return the days."""
    night = Night(house, passes, is_gated=False)
    night.condense(days)
    night.replay_days(days, parts=(OUTCOMES,))
    house.commit([*REPLAYED, *WRITES[OUTCOMES], gold.NAMESRV_SETTINGS, gold.ORDER_DECISIONS])
    return sorted(night.replayed)


def flag(house: Warehouse, passes: Passes, days: Sequence[dt.date]) -> list[dt.date]:
    """Raise the flags of days as they were replayed, and commit them; return the days."""
    return _judged(house, passes, days, FLAGS)


def verify(house: Warehouse, passes: Passes, days: Sequence[dt.date]) -> list[dt.date]:
    """Hold the answers of days against the histories as they are, and commit what comes of it; return the days."""
    return _judged(house, passes, days, VERIFY)


def _judged(house: Warehouse, passes: Passes, days: Sequence[dt.date], part: str) -> list[dt.date]:
    night = Night(house, passes, is_gated=False)
    night.condense(days)
    for day in days:
        night.judge(day, [part])
    house.commit(WRITES[part])
    return list(days)


def validate(house: Warehouse, passes: Passes) -> list[str]:
    """Judge all tables as they are now, and return warnings. Raises GateError if a critical rule is broken."""
    night = _all_days(house, passes)
    return require_sound(house, [*measured_small(house, sorted(night.replayed)), *night.measurements])


def publish_steps(house: Warehouse, passes: Passes) -> Published:
    """Publish what steps that were run alone have made. Raises as `publish`; GateError if days were not replayed."""
    days = days_to_do(house)
    require_replayed(house, days.wanted)
    night = _all_days(house, passes)
    # Steps that were run alone may have written to any day.
    counts = Ingested()
    for of_run in house.waiting().values():
        counts.take_up(of_run[0].counts)
    try:
        return publish(house, night, replace(days, touched=frozenset(days.recorded)), counts.counts, {})
    except GateError as error:
        note_refused(house, sorted(night.replayed), error, counts.counts, {})
        raise


def _all_days(house: Warehouse, passes: Passes) -> Night:
    recorded = asked_days(house.recorded(), None, None)
    night = Night(house, passes)
    night.condense(recorded)
    for day in recorded:
        night.judge(day, ())
    return night

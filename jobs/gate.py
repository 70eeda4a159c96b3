"""The gate: what must hold before anything is published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import quality
from jobs.tables import of_days
from jobs.warehouse import DATA_TABLES, WRITTEN_TABLES, Warehouse
from schemas import bronze, gold
from schemas.rules import RULES
from schemas.table import Table

if TYPE_CHECKING:
    from jobs.ingest import Ingested

_ONE_DAY = dt.timedelta(days=1)
# Their rows go on from one day's slice to the next.
_CARRIED = (*gold.HISTORY_TABLES, gold.NAMESRV_SETTINGS)


class GateError(RuntimeError):
    """Critical rules are broken; nothing was published."""


def validate(
    house: Warehouse, days: Collection[dt.date], ingested: Ingested | None = None, waiting: Collection[str] = ()
) -> list[str]:
    """Judge the bronze slices of `days`; return warnings. `waiting`: ingest runs that no published run covers, this one too.

    Raises GateError if a critical rule is broken or too much was quarantined.
    """
    if ingested is not None and ingested.frames:
        _require_few_quarantined(house, ingested.quarantined, ingested.frames)
    if set(waiting) - {house.run_id}:
        # What an earlier run has read and not published is no better because it is known by now.
        read, refused = (
            house.table(table).where(F.col("ingest_run").isin(sorted(waiting)))
            for table in (bronze.SOURCES, bronze.QUARANTINE)
        )
        frames = read.agg(F.coalesce(F.sum("frames"), F.lit(0)).alias("frames")).collect()[0]["frames"]
        _require_few_quarantined(house, refused.count(), frames)
    return _judged(house, bronze.TABLES, days)


def _require_few_quarantined(house: Warehouse, quarantined: int, frames: int) -> None:
    limit = house.conf.quarantine_share_max
    if quarantined > limit * frames and quarantined > house.conf.quarantine_frames_min:
        raise GateError(
            f"{quarantined} of {frames} frames are quarantined ({quarantined / max(frames, 1):.1%}); "
            f"the limit is {limit:.1%} (conf: ingest.quarantine_share_max)"
        )


def require_replayed(house: Warehouse, days: Collection[dt.date]) -> None:
    """Raise GateError if one of `days` has not been replayed since the last published run."""
    each = gold.NAMESRV_SETTINGS  # every replay of a day writes it, and it is never without rows

    def files(frame: DataFrame) -> dict[dt.date, set[str]]:
        rows = of_days(frame, days).select("day", F.input_file_name().alias("file")).distinct().collect()
        return {day: {row["file"] for row in rows if row["day"] == day} for day in days}

    now, then = files(house.table(each)), files(house.published(each))
    missing = [day.isoformat() for day in sorted(days) if now[day] <= then[day]]
    if missing:
        raise GateError(
            f"{len(missing)} day(s) have rows that were not replayed, or were replayed otherwise, {missing[0]} first: run "
            f"`nightly`, or `replay`, `flag` and `verify` of {missing[0]} to {missing[-1]} before `publish`"
        )


def validate_gold(house: Warehouse, days: Collection[dt.date]) -> list[str]:
    """Judge the gold slices of `days`; return warnings. Raises GateError if a critical rule is broken."""
    return _judged(house, DATA_TABLES, days)


def validate_all(house: Warehouse) -> list[str]:
    """Judge all tables as they are now; return warnings. Raises GateError if a critical rule is broken."""
    return _judged(house, WRITTEN_TABLES, None)


def _judged(house: Warehouse, judged: Sequence[Table], days: Collection[dt.date] | None) -> list[str]:
    frames = {**house.bronze(), **house.data()} if days is None else _around(house, judged, days)
    measured = quality.measure(house.spark, frames, [table.name for table in judged], days)
    verdict = quality.judge(measured, house.docs_dir)
    broken = [*verdict.critical, *(f"{rule} (not judged)" for rule in verdict.skipped)]
    if broken:
        raise GateError(f"{'; '.join(broken)}; see {verdict.docs_path}")
    return list(verdict.warnings)


def _around(house: Warehouse, judged: Sequence[Table], days: Collection[dt.date]) -> dict[str, DataFrame]:
    """Return what the rules of `judged` about `days` read: of histories also the days around, from and to which rows go on."""
    names = {name for table in judged for rule in RULES[table.name] for name in (table.name, *rule.needs)}
    needed = [table for table in WRITTEN_TABLES if table.name in names]
    around = {around for day in days for around in (day - _ONE_DAY, day, day + _ONE_DAY)}
    read = {
        **house.slices([table for table in needed if table not in _CARRIED], days),
        **house.slices([table for table in needed if table in _CARRIED], around),
    }
    if bronze.SOURCES.name in read:
        of_the_days = F.arrays_overlap("days", F.array(*(F.lit(day) for day in sorted(days))))
        read[bronze.SOURCES.name] = read[bronze.SOURCES.name].where(of_the_days)
    return read

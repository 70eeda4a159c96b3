"""The gate: what must hold before anything is published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import GateError
from jobs.ingest.ingested import Ingested
from jobs.night.docs import judge
from jobs.store.files import DataFile
from jobs.store.places import local_path
from jobs.store.warehouse import Warehouse
from namesrv_day.gate.rules import Measurement, measure
from namesrv_wire.errors import PIECES
from schemas import bronze, gold

SMALL = tuple(table for table in bronze.TABLES if not table.partition_by)
"""The tables that are not cut by day: the driver judges them."""
RARE = (bronze.SNAPSHOTS, bronze.QUARANTINE)
"""Tables of which a day has few rows: the driver judges them, too."""


_PIECES = sorted(reason.value for reason in PIECES)


def require_few_quarantined(house: Warehouse, ingested: Ingested, waiting: Collection[str]) -> None:
    """Raise GateError if too much was quarantined. `waiting`: ingest runs that no published run covers, this one too."""
    if ingested.frames:
        _require_few(house, ingested.misunderstood, ingested.frames)
    if set(waiting) - {house.run_id}:
        # What an earlier run has read and not published is no better because it is known by now.
        of_waiting = pc.field("ingest_run").isin(sorted(waiting))
        frames = house.rows(bronze.SOURCES, None, ["frames"], of_waiting)["frames"]
        refused = house.rows(bronze.QUARANTINE, None, ["reason"], of_waiting & ~pc.field("reason").isin(_PIECES))
        _require_few(house, refused.num_rows, pc.sum(frames).as_py() or 0)


def _require_few(house: Warehouse, quarantined: int, frames: int) -> None:
    limit = house.conf.quarantine_share_max
    if quarantined > limit * frames and quarantined > house.conf.quarantine_frames_min:
        raise GateError(
            f"{quarantined} of {frames} frames are quarantined ({quarantined / max(frames, 1):.1%}); "
            f"the limit is {limit:.1%} (conf: ingest.quarantine_share_max)"
        )


def require_replayed(house: Warehouse, days: Sequence[dt.date]) -> None:
    """Raise GateError if one of `days` has not been replayed since the last published run."""
    each = gold.NAMESRV_SETTINGS  # every replay of a day writes it, and it is never without rows

    def paths(files: Iterable[DataFile]) -> dict[dt.date | None, set[str]]:
        found: dict[dt.date | None, set[str]] = {day: set() for day in days}
        for file in files:
            found[file.day].add(file.path)
        return found

    now, then = paths(house.files(each, days)), paths(house.published_files(each, days))
    missing = [day.isoformat() for day in sorted(days) if now[day] <= then[day]]
    if missing:
        raise GateError(
            f"{len(missing)} day(s) have rows that were not replayed, or were replayed otherwise, {missing[0]} first: run "
            f"`nightly`, or `replay`, `flag` and `verify` of {missing[0]} to {missing[-1]} before `publish`"
        )


def measured_small(house: Warehouse, days: Collection[dt.date]) -> list[Measurement]:
    """Return the rules of the tables that are not cut by day, and of what is rare on `days`, counted."""
    frames = {table.name: house.rows(table) for table in SMALL}
    frames |= {table.name: house.rows(table, days) for table in RARE}
    frames[bronze.SOURCES.name] = _of_days(frames[bronze.SOURCES.name], days)
    return measure(frames)


def _of_days(sources: pa.Table, days: Collection[dt.date]) -> pa.Table:
    """Return the files of which the run that read them has rows on `days`."""
    wanted = set(days)
    return sources.filter(pa.array([not wanted.isdisjoint(of) for of in sources["days"].to_pylist()], pa.bool_()))


def require_sound(house: Warehouse, measurements: Sequence[Measurement]) -> list[str]:
    """Judge what was counted, and write the Data Docs; return warnings. Raises GateError if a critical rule is broken."""
    verdict = judge(measurements, docs_dir(house))
    broken = [*verdict.critical, *(f"{rule} (not judged)" for rule in verdict.skipped)]
    if broken:
        raise GateError(f"{'; '.join(broken)}; see {verdict.docs_path}")
    return list(verdict.warnings)


def docs_dir(house: Warehouse) -> Path:
    """Return the folder of the Data Docs."""
    return (local_path(house.path) or Path.cwd()) / "data_docs"

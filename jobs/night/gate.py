"""The gate: what must hold before anything is published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.conf import PipelineConf
from jobs.errors import GateError
from jobs.night.docs import judge
from jobs.store.places import local_path
from jobs.store.warehouse import Warehouse
from namesrv_day.gate.rules import Measurement, measure
from schemas import bronze

SMALL = tuple(table for table in bronze.TABLES if not table.partition_by)
"""The tables that are not cut by day: the driver judges them."""
RARE = (bronze.SNAPSHOTS, bronze.QUARANTINE)
"""Tables of which a day has few rows: the driver judges them, too."""

_BRONZE = frozenset(table.name for table in bronze.TABLES)


def measured_small(warehouse: Warehouse, days: Collection[dt.date]) -> list[Measurement]:
    """Return the rules of the tables that are not cut by day, and of what is rare on `days`, counted."""
    frames = {table.name: warehouse.rows(table) for table in SMALL}
    frames |= {table.name: warehouse.rows(table, days) for table in RARE}
    frames[bronze.SOURCES.name] = _of_days(frames[bronze.SOURCES.name], days, warehouse.run_id)
    return measure(frames)


def _of_days(sources: pa.Table, days: Collection[dt.date], run_id: str) -> pa.Table:
    """Return the files of which the run that read them has rows on `days`, and those that this run was given."""
    wanted, of_run = set(days), pc.equal(sources["ingest_run"], run_id)
    on_days = pa.array([not wanted.isdisjoint(of) for of in sources["days"].to_pylist()], pa.bool_())
    return sources.filter(pc.or_(on_days, of_run))


def require_sound(warehouse: Warehouse, measurements: Sequence[Measurement]) -> list[str]:
    """Judge what was counted, and write the Data Docs; return warnings. Raises GateError if a critical rule is broken."""
    verdict = judge(measurements, docs_dir(warehouse))
    broken = [*verdict.critical, *(f"{rule} (not judged)" for rule in verdict.skipped)]
    if broken:
        raise GateError(f"{'; '.join(broken)}; see {verdict.docs_path}", is_of_files=are_of_files(measurements))
    return list(verdict.warnings)


def require_unbroken(measurements: Sequence[Measurement]) -> None:
    """Raise GateError if a critical rule is broken, or could not be counted, without writing anything down."""
    broken = [f"{one.table}.{one.rule}" for one in measurements if _is_shut(one)]
    if broken:
        raise GateError("; ".join(broken), is_of_files=are_of_files(measurements))


def _is_shut(one: Measurement) -> bool:
    return bool(one.missing or (one.broken and one.severity == "critical"))


def are_of_files(measurements: Iterable[Measurement]) -> bool:
    """Return whether what broke critical rules may have come from a file.

    No row that was read breaks a rule about recorded rows by itself: such a row was brought by somebody else.
    """
    broken = filter(_is_shut, measurements)
    return not any(one.missing or (one.table in _BRONZE and one.kind == "row") for one in broken)


def are_too_many(verify: Mapping[str, Any], conf: PipelineConf) -> bool:
    """Return whether more answers do not match than the configuration lets pass in silence. `verify`: of a run's report."""
    wrong = verify.get("mismatched", 0)
    answers = verify.get("answers", 0) + sum(other["answers"] for other in verify.get("others", {}).values())
    return bool(wrong > conf.mismatched_min and wrong > conf.mismatched_share_max * answers)


def docs_dir(warehouse: Warehouse) -> Path:
    """Return the folder of the Data Docs."""
    return (local_path(warehouse.path) or Path.cwd()) / "data_docs"

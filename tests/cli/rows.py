"""Warehouses that publish literal rows (tests/rows.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobs.conf import PipelineConf
from jobs.store.files import write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import table_of
from schemas.table import Table
from tests.rows import Row

NOW = dt.datetime(2026, 3, 3, tzinfo=dt.timezone.utc)


def warehouse_at(path: Path | str, run_id: str) -> Warehouse:
    """Return a warehouse as one run sees it."""
    return Warehouse(str(path), PipelineConf(), run_id, NOW)


def write(warehouse: Warehouse, rows: Mapping[Table, Sequence[Row]]) -> None:
    """Commit rows of tables, one version a table; what a row does not say is NULL."""
    for table, some in rows.items():
        by_day: dict[dt.date | None, list[Row]] = {}
        for row in some:
            by_day.setdefault(_day_of(table, row), []).append(row)
        for day in sorted(by_day, key=str):
            warehouse.change(
                table, [write_file(table_of(by_day[day], table), warehouse.path, table, day, warehouse.run_id)]
            )
    warehouse.commit()


def _day_of(table: Table, row: Row) -> dt.date | None:
    """Return the day of a row; of an interval that on which it closed."""
    if table.has_intervals:
        end = row.get(table.span[1])
        return end.date() if isinstance(end, dt.datetime) else end
    return row["day"] if table.is_by_day else None


def publish(warehouse: Warehouse, rows: Mapping[Table, Sequence[Row]]) -> None:
    """Commit rows and publish them; their digests are made up."""
    write(warehouse, rows)
    cuts = {
        (table.name, _day_of(table, row), row["namesrv_id"])
        for table, some in rows.items()
        if table.partition_by
        for row in some
    }
    outputs = [
        {"table": name, "day": day, "namesrv_id": ns, "digest": "1-0-0"} for name, day, ns in sorted(cuts, key=repr)
    ]
    by_day = [(row["namesrv_id"], row["day"]) for some in rows.values() for row in some if "day" in row]
    days = sorted({day for _, day in by_day})
    of_days = [recorded_day(ns, day) for ns, day in sorted(set(by_day))]
    said = {"outputs": outputs, "coverage": of_days}
    warehouse.note_run(days, {"status": "published", "gate": "passed", "counts": {}, "seconds": {}, **said})


def recorded_day(namesrv_id: str, day: dt.date, *marks: tuple[str, dt.datetime, dt.datetime | None]) -> Row:
    """Return what the ledger says of a day that was recorded from its first to its last second. A mark: kind, when, until."""
    first, last = (dt.datetime.combine(day, clock, dt.timezone.utc) for clock in (dt.time(), dt.time(23, 59, 59)))
    said = [{"kind": kind, "at": at, "until": until} for kind, at, until in marks]
    return {"namesrv_id": namesrv_id, "day": day, "first_time": first, "last_time": last, "marks": said}

"""Literal rows of the tables: events by their id and instant, intervals between two of them, a warehouse that publishes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.conf import PipelineConf
from jobs.store.files import write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import table_of
from schemas.table import Table

Row = dict[str, Any]
Event = tuple[str, dt.datetime]
NOW = dt.datetime(2026, 3, 3, tzinfo=dt.timezone.utc)


def event(event_id: str, day: dt.date, clock: str) -> Event:
    """Return an event and when it took effect, in the session's zone, which is UTC."""
    return event_id, dt.datetime.combine(day, dt.time.fromisoformat(clock))


def seq(at: dt.datetime) -> int:
    """Return the position of an instant: nanoseconds since the epoch."""
    return (at - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1_000  # noqa: DTZ001  the zone is UTC


def interval(opened: Event, closed: Event | None = None) -> Row:
    """Return the columns that all histories share; open without `closed`."""
    position = {"seq": seq(opened[1]), "no": 0}
    begin = {"valid_from": opened[1], "opened_by": opened[0], "opened_at": position, "entered_at": position}
    begin |= {"known_from": opened[1], "beginning_seen": True}
    if closed is None:
        return begin
    return {**begin, "valid_to": closed[1], "closed_by": closed[0], "closed_at": {"seq": seq(closed[1]), "no": 0}}


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

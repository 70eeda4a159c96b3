"""Literal rows of the gold tables: events by their id and instant, intervals between two of them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from schemas.gold import LAYOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from schemas.table import Table

Row = dict[str, Any]
Event = tuple[str, dt.datetime]


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


def frame(spark: SparkSession, table: Table, rows: list[Row]) -> DataFrame:
    """Return `rows` with the columns of `table`; what a row does not say is NULL."""
    return spark.createDataFrame([tuple(row.get(name) for name in table.column_names) for row in rows], table.schema)


def published_run(run_id: str, versions: dict[str, int], days: list[dt.date], cuts: list[tuple[Any, ...]]) -> Row:
    """Return a row of the ledger that publishes `versions`; `cuts`: (table, day, namesrv_id, digest) that it wrote."""
    finished = dt.datetime(2026, 3, 3)  # noqa: DTZ001  the zone is UTC
    lists: Row = {"ingest_runs": [], "sources": [], "inputs": []}
    maps: Row = {"digests": {}, "counts": {}, "seconds": {}}
    named = {"run_id": run_id, "layout": LAYOUT, "status": "published", "gate": "passed", "code_version": "0"}
    times = {"started_time": finished, "finished_time": finished, "days": days}
    return {**named, **times, **lists, **maps, "config_sha256": "0", "versions": versions, "outputs": cuts}

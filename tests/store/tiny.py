"""A tiny warehouse: made-up tables, runs that write literal rows, and people who write beside them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from jobs.conf import PipelineConf
from jobs.store.files import DataFile, read_files, write_file
from jobs.store.ledger import as_rows
from jobs.store.places import table_path
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_day.arrow import slices_of, table_of
from schemas import bronze, gold
from schemas.table import DATE, LONG, STRING, Column, Table

DAY, NEXT = dt.date(2026, 11, 21), dt.date(2026, 11, 22)
NOW = dt.datetime(2026, 11, 23, tzinfo=dt.timezone.utc)
ONE, TWO = "10.0.0.1:9876", "10.0.0.2:9876"
NUMBERS = Table(
    "numbers",
    "gold",
    "one row per number",
    (Column("day", DATE, "Its day", required=True), Column("n", LONG, "It"), Column("text", STRING, "In words")),
    key=("n",),
)
NOTES = Table("notes", "gold", "one note", NUMBERS.columns[1:], key=("n",), partition_by=())
EXPIRED, HEARTBEATS = gold.EXPIRED_BROKERS, bronze.HEARTBEATS


def warehouse_at(path: Path, run_id: str = "run", at: dt.datetime = NOW) -> Warehouse:
    """Return a warehouse for one run, which makes no `history.duckdb`: that takes longer than all else that it does here."""
    warehouse = Warehouse(str(path), PipelineConf(), run_id, at)
    vars(warehouse)["write_history"] = lambda: None
    return warehouse


def linked(path: Path, to: Path) -> Path:
    """Return a copy of a warehouse, which takes next to nothing: of data files, which nobody writes over, it has links."""

    def one(source: str, at: str) -> None:
        (os.link if source.endswith(".parquet") and "_delta_log" not in source else shutil.copyfile)(source, at)

    return Path(shutil.copytree(path, to, copy_function=one))


def write(warehouse: Warehouse, table: Table, day: dt.date | None, *rows: Mapping[str, Any]) -> DataFile:
    """Write literal rows as a file that no version names."""
    same = {} if day is None else {"day": day}
    return write_file(table_of(rows, table, **same), warehouse.path, table, day, warehouse.run_id)


def put(warehouse: Warehouse, table: Table, day: dt.date, *rows: Mapping[str, Any]) -> None:
    """Replace a day's slice by literal rows."""
    warehouse.replace(table, [day], [write(warehouse, table, day, *rows)])


def numbers(warehouse: Warehouse, table: Table = NUMBERS, days: Sequence[dt.date] | None = None) -> list[int]:
    """Return the numbers that a run sees in a table, sorted."""
    return sorted(warehouse.rows(table, days, ["n"]).column("n").to_pylist())


def removal(name: str, namesrv_id: str = ONE) -> dict[str, Any]:
    """Return a row of expired_brokers."""
    return {"namesrv_id": namesrv_id, "broker_name": name, "removed_time": NOW, "topics_lost": [name]}


def beat(number: int, namesrv_id: str = ONE, run: str = "run") -> dict[str, Any]:
    """Return a row of heartbeats."""
    return {"namesrv_id": namesrv_id, "seq": number, "event_id": f"{number:032x}", "code": 322, "ingest_run": run}


def names(warehouse: Warehouse, *, published: bool = False) -> list[str]:
    """Return the broker names in expired_brokers that a run sees, or that are published."""
    rows = warehouse.published_rows(EXPIRED) if published else warehouse.rows(EXPIRED)
    return sorted(rows.column("broker_name").to_pylist())


def ingest(warehouse: Warehouse, day: dt.date, *rows: Mapping[str, Any], finish: bool = True) -> None:
    """Add beats to a day and note, if the run gets so far, that it has read a source."""
    warehouse.change(HEARTBEATS, [write(warehouse, HEARTBEATS, day, *rows)])
    warehouse.commit([HEARTBEATS])
    if finish:
        source = {
            "content_sha256": warehouse.run_id,
            "ingest_run": warehouse.run_id,
            "frames": len(rows),
            "days": [day],
        }
        warehouse.change(bronze.SOURCES, [write(warehouse, bronze.SOURCES, None, source)])
        warehouse.commit([bronze.SOURCES])


def publish(warehouse: Warehouse, days: Iterable[dt.date], **said: Any) -> None:
    """Write the run's row as a night does."""
    listed = sorted(days)
    tables = (HEARTBEATS, *DATA_TABLES)
    found = {
        table.name: slices_of(table.name, read_files(warehouse.path, table, files))
        for table in tables
        if (files := warehouse.files(table, listed))
    }
    read = as_rows(found.pop(HEARTBEATS.name, {}))
    written = as_rows({cut: digest for of in found.values() for cut, digest in of.items()})
    runs = [source.ingest_run for source in warehouse.recorded() if source.ingest_run not in warehouse.ledger().covered]
    row = {
        "status": "published",
        "gate": "passed",
        "inputs": read,
        "outputs": written,
        "ingest_runs": runs,
        "report": "{}",
    }
    warehouse.note_run(listed, {**row, **said})


def night(path: Path, run_id: str, day: dt.date, *rows: Mapping[str, Any], at: dt.datetime = NOW) -> Warehouse:
    """Publish a day's removals; return the warehouse of the run."""
    warehouse = warehouse_at(path, run_id, at)
    warehouse.start_from_published()
    put(warehouse, EXPIRED, day, *rows)
    warehouse.commit()
    publish(warehouse, [day])
    return warehouse


def somebody_appends(path: Path, table: Table, rows: pa.Table) -> None:
    """Write rows to a table without this software."""
    stored = rows.select(table.stored_schema.names)
    write_deltalake(table_path(str(path), table), stored, mode="append")


def opened(path: Path, table: Table) -> DeltaTable:
    """Return a table as delta-rs has it."""
    return DeltaTable(table_path(str(path), table))

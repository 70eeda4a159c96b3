"""Rows on their way from a reader into the tables: typed Arrow in files, so that memory does not grow with the input.

Set logic is done in SQL, and on what is narrow: keys, positions, numbers. Whole rows, of which one may be as long as a frame,
are only ever passed along, some at a time.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from jobs.store.files import DataFile
from namesrv_day.rows import plain
from namesrv_wire.rows import REVOKED, Row
from schemas import bronze
from schemas.table import STRING, Column, Table
from schemas.times import day_of

_REVOKED = Table(
    REVOKED,
    "bronze",
    "one row that later packets have proved wrong",
    (Column("table", STRING, "Its table", required=True), Column("event_id", STRING, "Its key", required=True)),
    key=("table", "event_id"),
)
WRITTEN = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS, bronze.TOPIC_CONFIGS_TABLE)}
"""The tables whose rows a run collects before it writes them; of each the key is one column."""
_STAGED = {**WRITTEN, bronze.QUARANTINE.name: bronze.QUARANTINE, REVOKED: _REVOKED}
_OWN = (pa.field("_n", pa.int64()), pa.field("_frame", pa.int64()), pa.field("_seq_is_given", pa.bool_()))
# What rows on their way may take in memory, about: a dict for each row and each item of a list, and texts as long as frames.
_PENDING_BYTES, _BYTES_PER_DICT = 32 << 20, 800
ROWS_AT_A_TIME = 1_000_000
"""Rows of stored files, or rows for one, that are in memory together."""
# What DuckDB needs beyond goes to files.
_MEMORY = "1GB"


@contextmanager
def staging_in(folder: Path, run_id: str, run_day: dt.date) -> Iterator[Staging]:
    """Give a staging area in `folder`, which is removed at the end. Rows without a time are filed under `run_day`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    staging = Staging(folder, run_id, run_day)
    try:
        yield staging
    finally:
        staging.close()
        shutil.rmtree(folder, ignore_errors=True)


class Staging:
    """Collects rows by table in files under one folder, and answers SQL about them.

    Whoever fills `moved` (_n, seq, is_taken) gives rows other positions.
    """

    def __init__(self, folder: Path, run_id: str, run_day: dt.date) -> None:
        self._folder = folder
        self._run_id = run_id
        self._run_day = run_day
        self._added = 0
        self._pending: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._pending_bytes = 0
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._on_day: dict[str, str] = {}
        self._con = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(folder / "spilled")})
        self.ask("SET TimeZone = 'UTC'; CREATE TABLE moved (_n BIGINT, seq BIGINT, is_taken BOOLEAN)")
        self.tables: set[str] = set()
        """The names of the tables of which there are rows."""
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: on no other day are they stored already."""

    def close(self) -> None:
        """Let go of all files."""
        for writer in self._writers.values():
            writer.close()
        self._con.close()

    def add(self, found: Row, *, frame: int | None) -> None:
        """Add one row; `ingest_run` and `day` are filled in.

        `frame`: with its key it tells for which frame or line the row stands: equal ones are one. None: for none.
        """
        values = found.values
        received_us = values.get("event_time")
        at_us = values.get("effect_time", received_us)
        day = day_of(at_us) if isinstance(at_us, int) else self._run_day
        self.days.update((day, day_of(received_us) if isinstance(received_us, int) else day))
        self._added += 1
        own = {"_n": self._added, "_frame": frame, "_seq_is_given": found.seq_is_given}
        self.tables.add(found.table)
        self._pending[found.table].append({**values, "ingest_run": self._run_id, "day": day, **own})
        self._pending_bytes += _BYTES_PER_DICT + sum(
            len(value) if isinstance(value, str) else _BYTES_PER_DICT * len(value)
            for value in values.values()
            if isinstance(value, (str, list))
        )
        if self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        for name, pending in self._pending.items():
            schema = pa.schema([*plain(_STAGED[name].schema), *_OWN])
            if name not in self._writers:
                self._writers[name] = pq.ParquetWriter(self._file(name), schema, compression="lz4")
            self._writers[name].write_table(pa.Table.from_pylist(pending, schema=schema))
        self._pending.clear()
        self._pending_bytes = 0

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.parquet"

    def settle(self, name: str, on_day: dt.date | None = None) -> None:
        """End the collecting of a table's rows. `kept_<name>` then has its keys and of each the row that was added last.

        That stands for all copies: `_frames` is the number of frames and lines for which they stand. `on_day`: all are of that.
        """
        self._on_day[name] = "day" if on_day is None else f"DATE '{on_day}'"
        self._flush()
        self._writers.pop(name).close()
        staged = ds.dataset(self._file(name))
        key = ", ".join(f'"{column}"' for column in _STAGED[name].key)
        of_last = [column for column in ("namesrv_id", "seq", "_seq_is_given") if column in staged.schema.names]
        self.ask(
            f"""CREATE TABLE kept_{name} AS
            SELECT {key}, max(_n) AS _n, count(DISTINCT _frame) AS _frames,
                   {", ".join(f"max_by({column}, _n) AS {column}" for column in of_last)}
            FROM staged GROUP BY {key} ORDER BY _n""",
            staged=staged,
        )

    def rows(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows that are kept, some at a time, with `_n`, `_frames`, `_seq_is_given` and `_seq_is_taken`."""
        other = {"seq": "coalesce(moved.seq, staged.seq) AS seq", "day": f"{self._on_day[name]} AS day"}
        columns = ", ".join(other.get(column, column) for column in _STAGED[name].column_names)
        with pq.ParquetFile(self._file(name)) as file:
            for group in range(file.num_row_groups):
                yield self.ask(
                    f"""SELECT {columns}, _n, _frames, _seq_is_given, coalesce(is_taken, FALSE) AS _seq_is_taken
                    FROM staged JOIN (SELECT _n, _frames FROM kept_{name}) USING (_n) LEFT JOIN moved USING (_n)""",
                    staged=file.read_row_group(group),
                )

    def ask(self, query: str, **tables: Any) -> pa.Table:
        """Return what `query` gives, if it gives anything; it also reads `tables` by their names."""
        for name, table in tables.items():
            self._con.register(name, table)
        try:
            found = self._con.sql(query)
            return None if found is None else found.to_arrow_table()
        finally:
            for name in tables:
                self._con.unregister(name)


def parts_of(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield stored files, at once as many as have about so many rows as may be in memory together."""
    rows = accumulate(file.rows for file in files)
    for _, part in groupby(zip(rows, files, strict=True), key=lambda pair: pair[0] // ROWS_AT_A_TIME):
        yield [file for _, file in part]

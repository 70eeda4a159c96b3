"""Rows on their way from a reader into Delta: typed Arrow, in files, so that memory does not grow with the input."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from typing_extensions import Self

from schemas.codec import day_of
from schemas.table import Table

_ROWS_PER_GROUP = 20_000
_ROW_NUMBER = "_n"
IS_FRAME = "_is_frame"
"""Column of a staged row: it stands for a frame or a line, and is counted as one."""


class Staging:
    """Collects rows by table in Parquet files under one folder; use as a context manager, which removes them at the end."""

    def __init__(self, folder: Path, tables: Mapping[str, Table], run_id: str, run_day: dt.date) -> None:
        self._folder = folder
        self._tables = tables
        self._run_id = run_id
        self._run_day = run_day
        self._schemas = {
            name: to_arrow_schema(table.schema, timezone="UTC")
            .append(pa.field(IS_FRAME, pa.bool_()))
            .append(pa.field(_ROW_NUMBER, pa.int64()))
            for name, table in tables.items()
        }
        self._pending: dict[str, list[dict[str, object]]] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, int] = {}

    def __enter__(self) -> Self:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, table: str, values: Mapping[str, object], *, is_frame: bool) -> None:
        """Add one row; `ingest_run` and `day` are filled in, times are microseconds since the epoch."""
        row = dict(values)
        row["ingest_run"] = self._run_id
        row[IS_FRAME] = is_frame
        at_us = row.get("effect_time", row.get("event_time"))
        row["day"] = day_of(at_us) if isinstance(at_us, int) else self._run_day
        row[_ROW_NUMBER] = self._rows[table] = self._rows.get(table, 0) + 1
        pending = self._pending.setdefault(table, [])
        pending.append(row)
        if len(pending) >= _ROWS_PER_GROUP:
            self._flush(table)

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Return what was added, by table, with IS_FRAME; of rows with one key the last that was added."""
        for table in list(self._pending):
            self._flush(table)
        for writer in self._writers.values():
            writer.close()
        found = {}
        for table in self._writers:
            rows = spark.read.parquet(str(self._folder / f"{table}.parquet"))
            last = Window.partitionBy(*self._tables[table].key).orderBy(F.col(_ROW_NUMBER).desc())
            latest = rows.withColumn("_rank", F.row_number().over(last)).where("_rank = 1")
            found[table] = latest.drop("_rank", _ROW_NUMBER)
        self._writers = {}
        return found

    def _flush(self, table: str) -> None:
        rows = self._pending.pop(table, [])
        if not rows:
            return
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(self._folder / f"{table}.parquet", self._schemas[table])
        self._writers[table].write_table(pa.Table.from_pylist(rows, schema=self._schemas[table]))

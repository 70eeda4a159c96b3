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

from namesrv_wire.rows import Row
from schemas.table import Table
from schemas.times import day_of

_ROWS_PER_GROUP = 20_000
ROW_NUMBER = "_n"
"""Column of a staged row: its number among all that were staged."""
SEQ_IS_GIVEN = "_seq_is_given"
"""Column of a staged row: the source says its position."""
FRAMES = "_frames"
"""Column of a staged row: for how many frames or lines it stands; copies of one row are one row for several."""
_FRAME = "_frame"


class Staging:
    """Collects rows by table in Parquet files under one folder; use as a context manager, which removes them at the end."""

    def __init__(self, folder: Path, tables: Mapping[str, Table], run_id: str, run_day: dt.date) -> None:
        self._folder = folder
        self._tables = tables
        self._run_id = run_id
        self._run_day = run_day
        self._schemas = {
            name: to_arrow_schema(table.schema, timezone="UTC")
            .append(pa.field(_FRAME, pa.int64()))
            .append(pa.field(SEQ_IS_GIVEN, pa.bool_()))
            .append(pa.field(ROW_NUMBER, pa.int64()))
            for name, table in tables.items()
        }
        self._pending: dict[str, list[dict[str, object]]] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows = 0
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: on no other day are they stored already."""

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

    def add(self, found: Row, *, frame: int | None) -> None:
        """Add one row; `ingest_run` and `day` are filled in.

        `frame`: with its key it tells for which frame or line the row stands: equal ones are one. None: for none.
        """
        table, row = found.table, dict(found.values)
        row["ingest_run"] = self._run_id
        row[_FRAME] = frame
        row[SEQ_IS_GIVEN] = found.seq_is_given
        received_us = row.get("event_time")
        at_us = row.get("effect_time", received_us)
        row["day"] = day_of(at_us) if isinstance(at_us, int) else self._run_day
        self.days.update((row["day"], day_of(received_us) if isinstance(received_us, int) else row["day"]))
        row[ROW_NUMBER] = self._rows = self._rows + 1
        pending = self._pending.setdefault(table, [])
        pending.append(row)
        if len(pending) >= _ROWS_PER_GROUP:
            self._flush(table)

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Return what was added, by table, with FRAMES; of rows with one key the last that was added."""
        for table in list(self._pending):
            self._flush(table)
        for writer in self._writers.values():
            writer.close()
        found = {}
        for table in self._writers:
            rows = spark.read.parquet(str(self._folder / f"{table}.parquet"))
            copies = Window.partitionBy(*self._tables[table].key)
            ranked = rows.withColumns(
                {
                    FRAMES: F.size(F.collect_set(_FRAME).over(copies)),
                    "_rank": F.row_number().over(copies.orderBy(F.col(ROW_NUMBER).desc())),
                }
            )
            found[table] = ranked.where("_rank = 1").drop("_rank", _FRAME)
        self._writers = {}
        return found

    def _flush(self, table: str) -> None:
        rows = self._pending.pop(table, [])
        if not rows:
            return
        if table not in self._writers:
            self._writers[table] = pq.ParquetWriter(self._folder / f"{table}.parquet", self._schemas[table])
        self._writers[table].write_table(pa.Table.from_pylist(rows, schema=self._schemas[table]))

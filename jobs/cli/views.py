"""Give a session the published tables under their names, and the functions that answer for an instant.

Reads   what the last published row of `runs` pins, or an earlier one
Makes   temporary views and temporary SQL table functions
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.errors import NothingPublishedError
from jobs.store.files import table_path
from jobs.store.ledger import Run, run_known_at, slices_in_force
from jobs.store.retention import require_kept
from jobs.store.warehouse import Warehouse
from namesrv_day.digest import Slice
from schemas import bronze, gold
from schemas import views as sql_views
from schemas.findings import query
from schemas.table import Table

_SLICE_DAYS = pa.schema([pa.field("namesrv_id", pa.string()), pa.field("day", pa.date32())])


def register_views(spark: SparkSession, house: Warehouse, as_known_at: str | dt.datetime | None = None) -> None:
    """Make the views and functions over the tables as the last published run left them.

    `as_known_at`: as an earlier run left them, by its id, or by an instant (with a time zone) the last run published by then.
    A history table, and `findings`, has two views: `<name>_slices`, as stored, cut by day; and `<name>`, a row for each whole
    interval or finding. A table that the run did not know is empty. Raises NothingPublishedError where there is no such run,
    NoLongerReadableError where maintenance has deleted what it had pinned.
    """
    run = _run_in_force(house, as_known_at)
    if as_known_at is not None:
        require_kept(house, run)
    days = _slice_days(slices_in_force(house.rows(gold.RUNS), known_at=run))
    slice_days = spark.createDataFrame(_as_table(days))
    slice_days.createOrReplaceTempView("slice_days")
    spark.sql(days_in_force(days))
    last_days = slice_days.groupBy("namesrv_id").agg(F.max("day").alias("last_day"))
    for table in gold.HISTORY_TABLES:
        rows = _read(spark, house.path, table, run)
        rows.createOrReplaceTempView(f"{table.name}_slices")
        whole_intervals(rows, last_days).createOrReplaceTempView(table.name)
    for table in (*gold.REPORT_TABLES, *bronze.TABLES):
        name = f"{table.name}_slices" if table is gold.FINDINGS else table.name
        _read(spark, house.path, table, run).createOrReplaceTempView(name)
    runs = spark.read.format("delta").load(table_path(house.path, gold.RUNS))
    known_runs = runs.where(F.col("finished_time") <= F.lit(run.finished_time))
    known_runs.createOrReplaceTempView(gold.RUNS.name)
    _register_restatements(spark, house, known_runs)
    for statement in (query("findings/readers_view"), *(of.sql for of in (*sql_views.views(), *sql_views.functions()))):
        spark.sql(statement)


def _register_restatements(spark: SparkSession, house: Warehouse, known_runs: DataFrame) -> None:
    """A run that was refused restated nothing."""
    restated = (
        _opened(spark, house.path, gold.RESTATEMENTS)
        if house.files(gold.RESTATEMENTS)
        else _none(spark, gold.RESTATEMENTS)
    )
    published = known_runs.where("status = 'published'").select("run_id")
    restated.join(published, on="run_id", how="left_semi").createOrReplaceTempView(gold.RESTATEMENTS.name)


def _run_in_force(house: Warehouse, as_known_at: str | dt.datetime | None) -> Run:
    last = house.ledger().last
    where = table_path(house.path, gold.RUNS)
    if last is None:
        raise NothingPublishedError(f"{where}: no run with status 'published'; run the nightly job first")
    known = last if as_known_at is None else run_known_at(house.rows(gold.RUNS), as_known_at)
    if known is None:
        raise NothingPublishedError(
            f"{where}: no published run is or was known at {as_known_at}; the last one is {last.run_id}"
        )
    return known


def whole_intervals(slices: DataFrame, last_days: DataFrame) -> DataFrame:
    """Return one row for each interval: closed ones from their last day, open ones from the last.

    `last_days`: one row for each name server, (namesrv_id, last_day).
    """
    return (
        slices.join(F.broadcast(last_days), "namesrv_id")
        .where(F.col("closed_by").isNotNull() | (F.col("day") == F.col("last_day")))
        .drop("day", "last_day")
    )


def _read(spark: SparkSession, warehouse: str, table: Table, run: Run) -> DataFrame:
    version = run.versions.get(table.name)
    if version is None:
        return _none(spark, table)
    try:
        return _opened(spark, warehouse, table, version)
    except AnalysisException as error:
        gone = f"{table_path(warehouse, table)}: version {version}, of run {run.run_id}, is not there"
        raise NothingPublishedError(gone) from error


def _opened(spark: SparkSession, warehouse: str, table: Table, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(table_path(warehouse, table))


def _none(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], table.spark_schema)


def days_in_force(slice_days: Collection[tuple[str, dt.date]]) -> str:
    """Return the statement of the function `days_in_force(t)`: the days whose slices hold what was so at t.

    The days are in its text, so that for a literal t it is a constant before anything is read, and partitions are pruned.
    """
    days: dict[str, list[dt.date]] = {}
    for name, day in sorted(slice_days, key=lambda one: one[1]):
        days.setdefault(name, []).append(day)
    last = "array_max(filter(array({}), day -> day <= to_date(t)))"
    of_each = {", ".join(f"DATE'{day}'" for day in found) for found in days.values()} or {"DATE'1970-01-01'"}
    chosen = ", ".join(last.format(found) for found in sorted(of_each))
    return f"CREATE OR REPLACE TEMPORARY FUNCTION days_in_force(t TIMESTAMP) RETURNS ARRAY<DATE> RETURN array({chosen})"


def _slice_days(slices: Iterable[Slice]) -> list[tuple[str, dt.date]]:
    """Return the (namesrv_id, day) that have slices of histories, as the ledger knows them: a look-up reads one day."""
    histories = {table.name for table in gold.HISTORY_TABLES}
    return sorted({(cut.namesrv_id or "", cut.day) for cut in slices if cut.table in histories})


def _as_table(slice_days: Collection[tuple[str, dt.date]]) -> pa.Table:
    columns = [[namesrv_id for namesrv_id, _ in slice_days], [day for _, day in slice_days]]
    return pa.table(columns, schema=_SLICE_DAYS)

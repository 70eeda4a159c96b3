"""Give a session the published tables under their names, and the functions that answer for an instant.

Reads   what the last published row of `runs` pins
Makes   temporary views and temporary SQL table functions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.tables import exists, read_table, union_all
from schemas import bronze, gold
from schemas import views as sql_views
from schemas.table import Table

_SLICE_DAYS = pa.schema([pa.field("namesrv_id", pa.string()), pa.field("day", pa.date32())])


class NothingPublishedError(LookupError):
    """There is no published run to read from."""


def register_views(spark: SparkSession, warehouse: str, versions: Mapping[str, int] | None = None) -> None:
    """Make the views and functions over the tables at `versions`, by default those of the last published run.

    A history table has two views: `<name>_slices`, as stored, a row for each day; and `<name>`, a row for
    each whole interval. A table without version is empty. One Spark job finds the slices of each name server.
    Raises NothingPublishedError where no run has been published.
    """
    pinned = published_versions(spark, warehouse) if versions is None else versions
    slices = {table.name: _read(spark, warehouse, table, pinned) for table in gold.HISTORY_TABLES}
    slice_days = _slice_days(spark, slices.values())
    slice_days.createOrReplaceTempView("slice_days")
    last_days = slice_days.groupBy("namesrv_id").agg(F.max("day").alias("last_day"))
    for name, rows in slices.items():
        rows.createOrReplaceTempView(f"{name}_slices")
        whole_intervals(rows, last_days).createOrReplaceTempView(name)
    for table in (*gold.REPORT_TABLES, *bronze.TABLES):
        _read(spark, warehouse, table, pinned).createOrReplaceTempView(table.name)
    runs = read_table(spark, warehouse, gold.RUNS)
    runs.createOrReplaceTempView(gold.RUNS.name)
    # A run that was refused restated nothing.
    restated = read_table(spark, warehouse, gold.RESTATEMENTS)
    published = runs.where("status = 'published'").select("run_id")
    restated.join(published, on="run_id", how="left_semi").createOrReplaceTempView(gold.RESTATEMENTS.name)
    for statement in (*sql_views.views(), *sql_views.functions()):
        spark.sql(statement.sql)


def published_versions(spark: SparkSession, warehouse: str) -> dict[str, int]:
    """Return table name -> Delta version as the last published run left them."""
    last = (
        read_table(spark, warehouse, gold.RUNS)
        .where("status = 'published'")
        .select(F.max_by("versions", F.struct("finished_time", "run_id")).alias("versions"))
        .first()
    )
    if last is None or last["versions"] is None:
        raise NothingPublishedError(f"{warehouse}/gold/runs: no run with status 'published'; run the nightly job first")
    return dict(last["versions"])


def whole_intervals(slices: DataFrame, last_days: DataFrame) -> DataFrame:
    """Return one row for each interval: closed ones from their last day, open ones from the last.

    `last_days`: one row for each name server, (namesrv_id, last_day).
    """
    return (
        slices.join(F.broadcast(last_days), "namesrv_id")
        .where(F.col("closed_by").isNotNull() | (F.col("day") == F.col("last_day")))
        .drop("day", "last_day")
    )


def _read(spark: SparkSession, warehouse: str, table: Table, versions: Mapping[str, int]) -> DataFrame:
    if table.name not in versions:
        return spark.createDataFrame([], table.schema)
    if not exists(spark, warehouse, table):
        raise NothingPublishedError(
            f"{warehouse}/{table.layer}/{table.name}: no table, but version {versions[table.name]} is pinned"
        )
    return read_table(spark, warehouse, table, versions[table.name])


def _slice_days(spark: SparkSession, slices: Iterable[DataFrame]) -> DataFrame:
    """Return the (namesrv_id, day) that have slices, collected once, so that a look-up reads one day."""
    days = union_all(rows.select("namesrv_id", "day").distinct() for rows in slices)
    found = sorted((row["namesrv_id"], row["day"]) for row in days.distinct().collect())
    columns = [[namesrv_id for namesrv_id, _ in found], [day for _, day in found]]
    return spark.createDataFrame(pa.table(columns, schema=_SLICE_DAYS))

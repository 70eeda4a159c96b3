"""Slices of Delta tables as the Parquet files that they consist of.

Delta looks for the files of a slice in each query, with a Spark job that takes longer than reading a small slice.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from jobs import jvm
from jobs.tables import USER_METADATA, empty, exists, of_days, table_path
from schemas.table import Table

# The version of Delta's protocol in which the rows of a table are those of its files.
_PLAIN_FILES = 1
_DAY_FOLDER = re.compile(r"/day=(\d{4}-\d{2}-\d{2})/")


def files_by_day(
    spark: SparkSession, warehouse: str, table: Table, frame: DataFrame, days: Collection[dt.date]
) -> dict[dt.date, list[str]] | None:
    """Return the Parquet files that the slices of `days` of `table`, read as `frame`, consist of, by day.

    None where a table is more than its files, because somebody gave it deletion vectors or mapped columns.
    """
    if not exists(spark, warehouse, table):
        return {day: [] for day in days}
    if not _is_plain(_snapshot(spark, table_path(warehouse, table))):
        return None
    files: dict[dt.date, list[str]] = {day: [] for day in days}
    for name in of_days(frame, days).inputFiles():
        files[dt.date.fromisoformat(_DAY_FOLDER.findall(name)[-1])].append(name)
    return files


def rows_of_files(spark: SparkSession, warehouse: str, table: Table, files: Sequence[str]) -> DataFrame:
    """Return the rows of data files of `table`; where there are none, Spark knows it."""
    if not files:
        return empty(spark, table.schema)
    rows = spark.read.schema(table.schema).option("basePath", table_path(warehouse, table)).parquet(*files)
    return rows.select(*table.column_names)


def files_of_days(
    spark: SparkSession, warehouse: str, table: Table, frame: DataFrame, days: Collection[dt.date]
) -> DataFrame:
    """Return the slices of `days` of `table`, read as `frame`, as their files; as Delta reads them if they are more than that."""
    files = files_by_day(spark, warehouse, table, frame, days)
    if files is None:
        return of_days(frame, days)
    return rows_of_files(spark, warehouse, table, [name for day in sorted(files) for name in files[day]])


def files_last_written(
    spark: SparkSession, warehouse: str, table: Table, days: Collection[dt.date]
) -> dict[dt.date, list[str]] | None:
    """Return the files that the last commit of `table`, by which this session replaced the slices of `days`, has added, by day.

    None where they do not tell the slices: the commit is another one's, or the table is more than its files.
    """
    path = table_path(warehouse, table)
    snapshot = _snapshot(spark, path)
    if not _is_plain(snapshot):
        return None
    log = snapshot.deltaLog()
    commit, _ = jvm.path_and_system(spark, f"{path}/_delta_log/{snapshot.version():020d}.json")
    actions = json.loads(f"[{log.store().read(commit, log.newDeltaHadoopConf()).mkString(',')}]")
    by = next((action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action), None)
    files: dict[dt.date, list[str]] = {day: [] for day in days}
    for added in (action["add"] for action in actions if "add" in action):
        files.setdefault(dt.date.fromisoformat(added["partitionValues"]["day"]), []).append(
            f"{path}/{unquote(added['path'])}"
        )
    return files if by == spark.conf.get(USER_METADATA, None) and files.keys() == set(days) else None


def _is_plain(snapshot: Any) -> bool:
    """Return whether the rows of a table are those of its files."""
    return bool(snapshot.protocol().minReaderVersion() <= _PLAIN_FILES)


def _snapshot(spark: SparkSession, path: str) -> Any:
    """Return Delta's own view of a table, as it was last looked at."""
    return jvm.delta_log(spark, path).unsafeVolatileSnapshot()

"""Delta tables on disk: where they lie, how they are written, which version they have."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from jobs import jvm
from jobs.digest import Digest
from schemas.table import Table

log = logging.getLogger(__name__)
T = TypeVar("T")
# Small commits wait for the disk and for the driver, not for the cores.
_WRITERS = 4
# One task writes a file: larger slices are several files, or all cores but one would wait for it.
_ROWS_PER_FILE = 1_000_000
# Operations that change files or properties, never rows.
_HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES")
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""Setting of what every commit says of itself."""


def table_path(warehouse: str, table: Table) -> str:
    """Return where `table` lies: `<warehouse>/<layer>/<name>`."""
    return f"{warehouse}/{table.layer}/{table.name}"


def exists(spark: SparkSession, warehouse: str, table: Table) -> bool:
    """Return whether `table` has been written."""
    return bool(DeltaTable.isDeltaTable(spark, table_path(warehouse, table)))


def read_table(spark: SparkSession, warehouse: str, table: Table, version: int | None = None) -> DataFrame:
    """Return `table` as it is now or at `version`; an empty frame with its schema if it was never written."""
    if not exists(spark, warehouse, table):
        return empty(spark, table.schema)
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(table_path(warehouse, table))


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows, of which Spark knows that it has none: queries leave out what depends on it."""
    return spark.createDataFrame(to_arrow_schema(schema, timezone="UTC").empty_table(), schema)


def cut_short(frame: DataFrame) -> DataFrame:
    """Return the rows of `frame`, computed now, as a frame that no longer knows where they come from.

    Every step of a query is analysed with all that it is made of, again and again: what many steps use should be short.
    On a cluster the rows are written beside the tables, where no lost executor takes them along; `checkpoints_in` says where.
    """
    cut = frame.localCheckpoint() if _is_local(frame.sparkSession) else frame.checkpoint()
    # Its columns would still be those of the frames it was made from, and a join with one of them ambiguous.
    return cut.select(*(F.col(column).alias(column) for column in cut.columns))


def checkpoints_in(spark: SparkSession, folder: str) -> None:
    """Have rows that are `cut_short` on a cluster written into `folder`."""
    if not _is_local(spark):
        spark.sparkContext.setCheckpointDir(folder)


def _is_local(spark: SparkSession) -> bool:
    return str(spark.conf.get("spark.master", "")).startswith("local")


def conformed(frame: DataFrame, table: Table) -> DataFrame:
    """Return `frame` with exactly the columns of `table`, in order, typed and with their comments.

    A column that is missing becomes NULL, which a required column's rule then reports.
    """
    nullable = [
        StructField(field.name, field.dataType, nullable=True, metadata=field.metadata) for field in table.schema
    ]
    return frame.to(StructType(nullable))


def of_days(frame: DataFrame, days: Collection[dt.date]) -> DataFrame:
    """Return the slices of `days`."""
    return frame.where(F.col("day").isin(sorted(days)))


def union_all(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all `frames`, at least one, by column name; a column that a frame does not have is NULL."""
    united = list(frames)
    # In pairs: every step analyses all that it unites, and one frame after the other that would be all of it each time.
    while len(united) > 1:
        pairs = zip_longest(united[::2], united[1::2])
        united = [one if other is None else one.unionByName(other, allowMissingColumns=True) for one, other in pairs]
    return united[0]


def write_days(frame: DataFrame, warehouse: str, table: Table, days: Sequence[dt.date], *, rows: int = 0) -> None:
    """Replace the slices of `days` in `table` by `frame`, in one commit. Rows of other days are an error.

    `rows`: about how many there are, if that is known; a file holds a million.
    """
    listed = ", ".join(f"DATE'{day.isoformat()}'" for day in days)
    writer = _writer(conformed(frame, table), table, files=1 + rows // _ROWS_PER_FILE)
    writer.mode("overwrite").option("replaceWhere", f"day IN ({listed})").save(table_path(warehouse, table))


def append(frame: DataFrame, warehouse: str, table: Table) -> None:
    """Append `frame` to `table`."""
    _writer(conformed(frame, table), table).mode("append").save(table_path(warehouse, table))


def upsert(spark: SparkSession, frame: DataFrame, warehouse: str, table: Table) -> None:
    """Insert the rows of `frame` whose key is new and replace those whose key is there."""
    if not exists(spark, warehouse, table):
        append(frame, warehouse, table)
        return
    same_key = " AND ".join(f"old.{column} <=> new.{column}" for column in table.key)
    (
        DeltaTable.forPath(spark, table_path(warehouse, table))
        .alias("old")
        .merge(conformed(frame, table).alias("new"), same_key)
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )


def delete_keys(spark: SparkSession, keys: Iterable[str], warehouse: str, table: Table) -> None:
    """Delete the rows with these values of the (single-column) key."""
    wanted = list(keys)
    if wanted and exists(spark, warehouse, table):
        DeltaTable.forPath(spark, table_path(warehouse, table)).delete(F.col(table.key[0]).isin(wanted))


def version_of(spark: SparkSession, warehouse: str, table: Table) -> int | None:
    """Return the current version of `table`; None if it was never written."""
    folder = local_path(table_path(warehouse, table))
    if folder is not None:
        commits = (path.stem for path in (folder / "_delta_log").glob("*.json"))
        return max((int(number) for number in commits if number.isdigit()), default=None)
    # DESCRIBE HISTORY would say the same, in a third of a second for each table.
    version = int(jvm.delta_log(spark, table_path(warehouse, table)).unsafeVolatileSnapshot().version())
    return None if version < 0 else version


def commits_after(spark: SparkSession, warehouse: str, table: Table, version: int) -> list[Row]:
    """Return the commits of `table` after `version` that may have changed rows: version, operation, userMetadata."""
    history = DeltaTable.forPath(spark, table_path(warehouse, table)).history()
    later = history.where((F.col("version") > version) & ~F.col("operation").isin(*_HARMLESS))
    rows: list[Row] = later.select("version", "operation", "userMetadata").collect()
    return rows


def clear(spark: SparkSession, warehouse: str, table: Table) -> None:
    """Delete all rows of `table`."""
    DeltaTable.forPath(spark, table_path(warehouse, table)).delete()


def restore(spark: SparkSession, warehouse: str, table: Table, version: int) -> None:
    """Make `table` what it was at `version`, in a new commit."""
    DeltaTable.forPath(spark, table_path(warehouse, table)).restoreToVersion(version)


def in_parallel(work: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Do independent pieces of work side by side; the first exception is raised after all have ended."""
    with ThreadPoolExecutor(max_workers=_WRITERS) as pool:
        futures = {name: pool.submit(piece) for name, piece in work.items()}
    return {name: future.result() for name, future in futures.items()}


class Slice(NamedTuple):
    """What a table holds of one name server on one day; of a piece of quarantine the name server may be unknown."""

    table: str
    day: dt.date
    namesrv_id: str | None


def digests(frames: Mapping[str, DataFrame]) -> dict[str, str]:
    """Return the digest of each frame's rows, printed; one Spark job for all frames."""
    found = _digested(frames)
    return {name: str(found.get((name,), Digest())) for name in sorted(frames)}


def slice_digests(frames: Mapping[str, DataFrame]) -> dict[Slice, Digest]:
    """Return the digest of each slice that has rows; one Spark job for all frames, which are cut by day."""
    return {Slice(*key): digest for key, digest in _digested(frames, "day", "namesrv_id").items()}


def _digested(frames: Mapping[str, DataFrame], *by: str) -> dict[tuple[Any, ...], Digest]:
    if not frames:
        return {}
    hashed = union_all(
        frame.select(F.lit(name).alias("table"), *by, F.xxhash64(*frame.columns).alias("h"))
        for name, frame in frames.items()
    )
    # The halves of a hash are summed apart: sums of 64-bit numbers need decimals, which take ten times as long.
    high, low = F.shiftright("h", 32), F.col("h").bitwiseAND(F.lit(0xFFFFFFFF).cast("bigint"))
    summed = hashed.groupBy("table", *by).agg(
        F.count("*").alias("rows"), F.sum(high).alias("high"), F.sum(low).alias("low"), F.bit_xor("h").alias("xor")
    )
    return {
        tuple(row[column] for column in ("table", *by)): Digest(
            row["rows"], ((row["high"] << 32) + row["low"]) % (1 << 64), row["xor"] % (1 << 64)
        )
        for row in summed.collect()
    }


def _writer(frame: DataFrame, table: Table, files: int = 1) -> DataFrameWriter:
    writer = frame.coalesce(files).write.format("delta")
    return writer.partitionBy(*table.partition_by) if table.partition_by else writer


def local_path(warehouse: str) -> Path | None:
    """Return the warehouse as a path if it lies on a local disk; None for a remote file system."""
    if warehouse.startswith("file:"):
        return Path(warehouse.removeprefix("file:"))
    return None if "://" in warehouse else Path(warehouse)


def remove(spark: SparkSession, path: str) -> None:
    """Remove a folder, on whatever file system it lies."""
    folder, system = jvm.path_and_system(spark, path)
    system.delete(folder, True)


def row_counts(frames: Mapping[str, DataFrame]) -> dict[str, int]:
    """Return the number of rows of each frame, one Spark job for all."""
    if not frames:
        return {}
    names = union_all(frame.select(F.lit(name).alias("name")) for name, frame in frames.items())
    found = {row["name"]: row["count"] for row in names.groupBy("name").count().collect()}
    return {name: found.get(name, 0) for name in frames}

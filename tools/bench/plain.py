"""What stands on the other side: Spark's own reading and writing of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

SCANNED = (
    "namesrv_id", "cluster_name", "broker_name", "broker_addr", "code", "data_version", "channel_id", "effect_time", "seq",
)  # fmt: skip
"""The columns of a heartbeat on which its effect depends."""


def as_spark_stores(spark: SparkSession, files: Sequence[str], folder: Path) -> DataFrame:
    """Return the rows of Parquet files as Spark's own writer leaves them, whatever our layout is."""
    if not (folder / "_SUCCESS").exists():
        spark.read.parquet(*files).write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def scan(heartbeats: DataFrame) -> None:
    """Read the columns and throw them away: the yardstick."""
    heartbeats.select(*SCANNED).write.format("noop").mode("overwrite").save()


def write(rows: DataFrame, target: Path) -> None:
    """Write rows as a Delta table."""
    rows.write.format("delta").mode("overwrite").save(str(target))

"""What PySpark has no words for: Delta's log, and Hadoop's file systems."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def delta_log(spark: SparkSession, path: str) -> Any:
    """Return the log of the Delta table at `path` (a DeltaLog), as this session has opened it."""
    return _jvm(spark).org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001


def path_and_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a Path of Hadoop's, and the FileSystem on which it lies."""
    found = _jvm(spark).org.apache.hadoop.fs.Path(path)
    return found, found.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001


def none_of(spark: SparkSession) -> Any:
    """Return Scala's None."""
    return _jvm(spark).scala.Option.apply(None)


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm  # noqa: SLF001


def bytes_of(frame: DataFrame) -> int:
    """Return about how many bytes Spark expects a frame to have, without a job: of a stored table, those of its files."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001

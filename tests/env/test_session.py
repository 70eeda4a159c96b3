"""The session every job and every test gets."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        ("spark.databricks.delta.snapshotPartitions", "1"),
        ("spark.ui.enabled", "false"),
    ],
)
def test_session_has_the_settings_of_the_project(spark: SparkSession, name: str, value: str) -> None:
    """conf/spark-defaults.conf is in force although no spark-submit started this process."""
    assert spark.conf.get(name) == value


def test_new_delta_table_is_readable_by_simple_clients(spark: SparkSession, warehouse: Path) -> None:
    """A new table uses no deletion vectors: reader version 1, which every Delta client knows."""
    path = str(warehouse / "numbers")
    spark.range(3).write.format("delta").save(path)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert detail is not None
    assert detail["minReaderVersion"] == 1
    assert spark.read.format("delta").load(path).count() == 3


def test_instants_come_back_in_utc(spark: SparkSession) -> None:
    """An instant keeps its UTC wall clock when collected, whatever the zone of the machine."""
    row = spark.sql("SELECT timestamp_millis(1767225600123) AS t").first()
    assert row is not None
    assert row["t"] == dt.datetime(2026, 1, 1, 0, 0, 0, 123000)  # noqa: DTZ001

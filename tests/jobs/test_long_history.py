"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import tables
from jobs.views import days_in_force
from schemas import gold
from schemas import views as sql_views
from tests.jobs.scans import files_read

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 40, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY


@pytest.fixture(scope="module")
def forty_days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A warehouse with 40 slices of one history table, one file each, and the views and functions over them."""
    path = str(tmp_path_factory.mktemp("forty-days"))
    days = [FIRST + dt.timedelta(days=number) for number in range(DAYS)]
    topics = spark.range(TOPICS).selectExpr("concat('topic-', id) AS topic")
    rows = topics.crossJoin(spark.createDataFrame([(day,) for day in days], "day DATE")).selectExpr(
        "'ns' AS namesrv_id",
        "topic",
        "'broker' AS broker_name",
        *("4 AS read_queue_nums", "4 AS write_queue_nums", "6 AS perm", "0 AS topic_sys_flag"),
        f"TIMESTAMP'{FIRST}' AS valid_from",
        *("'event' AS opened_by", "named_struct('seq', 1L, 'no', 0) AS opened_at", "true AS beginning_seen", "day"),
    )
    tables.write_days(rows, path, HISTORY, days)
    tables.read_table(spark, path, HISTORY).createOrReplaceTempView(f"{HISTORY.name}_slices")
    slice_days = spark.createDataFrame([("ns", day) for day in days], "namesrv_id STRING, day DATE")
    slice_days.createOrReplaceTempView("slice_days")
    spark.sql(days_in_force(slice_days))
    (function,) = (found for found in sql_views.functions() if found.name == "topic_queue_table_at")
    spark.sql(function.sql)
    yield path
    spark.catalog.dropTempView(f"{HISTORY.name}_slices")
    spark.catalog.dropTempView("slice_days")


@pytest.mark.parametrize("day", [0, 17, DAYS - 1])
def test_the_table_at_an_instant_opens_the_files_of_its_day_only(
    spark: SparkSession, forty_days: str, day: int
) -> None:
    """One file of forty is read, whichever day is asked for; a query without a day reads all, or the count would be blind."""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=day)} 12:00:00'"
    found = spark.sql(f"SELECT * FROM topic_queue_table_at({at})")
    assert found.count() == TOPICS
    assert files_read(found) == 1
    assert files_read(tables.read_table(spark, forty_days, HISTORY).select("topic")) == DAYS


def test_a_further_night_reads_and_writes_one_slice(spark: SparkSession, forty_days: str) -> None:
    """The slice from which a night starts is one file of forty; replacing a slice adds one file and removes one."""
    rows = tables.read_table(spark, forty_days, HISTORY)
    last = FIRST + dt.timedelta(days=DAYS - 1)
    carried = rows.where(rows["day"] == last)
    assert files_read(carried) == 1
    tables.write_days(carried, forty_days, HISTORY, [last])
    log = Path(forty_days) / HISTORY.layer / HISTORY.name / "_delta_log" / f"{1:020d}.json"
    actions = log.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('{"add"') for line in actions) == 1
    assert sum(line.startswith('{"remove"') for line in actions) == 1

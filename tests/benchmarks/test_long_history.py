"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.conf import PipelineConf
from jobs.store.files import table_path, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.rows import table_of
from schemas import gold
from schemas import views as sql_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 40, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY
_ROW = {
    "namesrv_id": "ns", "broker_name": "broker", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6,
    "topic_sys_flag": 0, "valid_from": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), "opened_by": "event",
    "opened_at": {"seq": 1, "no": 0}, "beginning_seen": True,
}  # fmt: skip


def house_at(path: Path) -> Warehouse:
    """Return the warehouse for one run."""
    return Warehouse(str(path), PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))


@pytest.fixture(scope="module")
def forty_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with 40 slices of one history table, one file and one commit each."""
    path = tmp_path_factory.mktemp("forty-days")
    for day in (FIRST + dt.timedelta(days=number) for number in range(DAYS)):
        house = house_at(path)
        rows = table_of(({**_ROW, "topic": f"topic-{number}"} for number in range(TOPICS)), HISTORY, day=day)
        house.replace(HISTORY, [day], [write_file(rows, house.path, HISTORY, day, house.run_id)])
        house.commit()
    return path


@pytest.fixture(scope="module")
def views(spark: SparkSession, forty_days: Path) -> Iterator[DataFrame]:
    """The function `topic_queue_table_at` over them; gives the table."""
    rows = spark.read.format("delta").load(table_path(str(forty_days), HISTORY))
    rows.createOrReplaceTempView(f"{HISTORY.name}_slices")
    days = [("ns", FIRST + dt.timedelta(days=number)) for number in range(DAYS)]
    spark.createDataFrame(days, "namesrv_id STRING, day DATE").createOrReplaceTempView("slice_days")
    spark.sql(sql_views.days_in_force(days))
    (function,) = (found for found in sql_views.functions() if found.name == "topic_queue_table_at")
    spark.sql(function.sql)
    yield rows
    spark.catalog.dropTempView(f"{HISTORY.name}_slices")
    spark.catalog.dropTempView("slice_days")


@pytest.mark.parametrize("day", [0, 17, DAYS - 1])
def test_the_table_at_an_instant_opens_the_files_of_its_day_only(
    spark: SparkSession, views: DataFrame, day: int
) -> None:
    """One file of forty is read, whichever day is asked for; a query without a day reads all, or the count would be blind."""
    at = f"TIMESTAMP'{FIRST + dt.timedelta(days=day)} 12:00:00'"
    found = spark.sql(f"SELECT * FROM topic_queue_table_at({at})")
    assert found.count() == TOPICS
    assert len(found.inputFiles()) == 1
    assert len(views.select("topic").inputFiles()) == DAYS


def test_a_further_night_reads_and_writes_one_slice(forty_days: Path) -> None:
    """The slice from which a night starts is one file of forty; replacing a slice adds one file and removes one."""
    house, last = house_at(forty_days), FIRST + dt.timedelta(days=DAYS - 1)
    (carried,) = house.files(HISTORY, [last])
    rows = house.rows(HISTORY, [last])
    assert (carried.rows, rows.num_rows) == (TOPICS, TOPICS)
    house.replace(HISTORY, [last], [write_file(rows, house.path, HISTORY, last, house.run_id)])
    version = house.commit()[HISTORY.name]
    log = Path(table_path(house.path, HISTORY)) / "_delta_log" / f"{version:020d}.json"
    actions = [next(iter(json.loads(line))) for line in log.read_text(encoding="utf-8").splitlines()]
    assert sorted(action for action in actions if action != "commitInfo") == ["add", "remove"]

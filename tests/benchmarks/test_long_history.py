"""A long history costs no more to ask and to extend than a short one: what is read is counted, not timed."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.cli.views import register_views
from jobs.conf import PipelineConf
from jobs.store.files import write_file
from jobs.store.places import table_path
from jobs.store.warehouse import Warehouse
from schemas import gold
from tests.cli.rows import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST, DAYS, TOPICS = dt.date(2026, 1, 1), 40, 3
HISTORY = gold.TOPIC_QUEUE_HISTORY
_ROW = {
    "namesrv_id": "ns", "broker_name": "broker", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6,
    "topic_sys_flag": 0, "valid_from": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), "opened_by": "event",
    "opened_at": {"seq": 1, "no": 0}, "beginning_seen": True,
}  # fmt: skip


def house_at(path: Path, run_id: str = "run") -> Warehouse:
    """Return the warehouse for one run."""
    return Warehouse(str(path), PipelineConf(), run_id, dt.datetime.now(dt.timezone.utc))


@pytest.fixture(scope="module")
def forty_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with 40 slices of one history table, one file, one commit and one published run each."""
    path = tmp_path_factory.mktemp("forty-days")
    for number in range(DAYS):
        day = FIRST + dt.timedelta(days=number)
        rows = [{**_ROW, "topic": f"topic-{topic}", "day": day} for topic in range(TOPICS)]
        publish(house_at(path, f"run-{number:02}"), {HISTORY: rows})
    return path


@pytest.fixture(scope="module")
def views(spark: SparkSession, forty_days: Path) -> DataFrame:
    """The function `topic_queue_table_at` over them, with what it calls; gives the table."""
    register_views(spark, house_at(forty_days), texts=["topic_queue_table_at"])
    return spark.table(f"{HISTORY.name}_slices")


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


@pytest.mark.slow
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

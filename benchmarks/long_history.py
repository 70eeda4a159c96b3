"""Nights upon nights: what a further night and a look-up cost when there are many days, and what maintenance makes of them.

`python -m benchmarks.long_history FOLDER [--days 400]` writes that many slices of a history table, one commit a day, through
the functions that the jobs use, and prints a Markdown table. FOLDER must not exist.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from jobs import tables
from jobs.maintain import maintain
from jobs.session import spark_session
from schemas import gold

FIRST = dt.date(2025, 1, 1)
HISTORY = gold.TOPIC_QUEUE_HISTORY
TOPICS, REPEATS = 1_000, 5
# Of a run in the ledger, what maintenance asks for.
RUN = "run_id STRING, status STRING, finished_time TIMESTAMP, versions MAP<STRING, BIGINT>"


def main(arguments: list[str]) -> int:
    """Write the days, read them, maintain them."""
    parser = argparse.ArgumentParser(description="cost of a long history")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=400)
    given = parser.parse_args(arguments)
    spark, path = spark_session("long history"), str(given.folder.resolve())
    days = [FIRST + dt.timedelta(days=number) for number in range(given.days)]
    print("| day | night's write and read, s | look-up of a day, s | files opened | files of the table | log entries |")
    print("|---|---|---|---|---|---|")
    seconds = []
    for number, day in enumerate(days, start=1):
        seconds.append(timed(partial(write, spark, path, day)))
        if number in (10, 50, 100, 200, 300, given.days):
            # Every tenth commit writes a checkpoint, too: the mean of ten has one of these.
            night = statistics.mean(seconds[-10:])
            print(
                f"| {number} | {night:.2f} | {' | '.join(map(str, look_up(spark, path, days[:number])))} |", flush=True
            )
    for _ in range(5):
        write(spark, path, days[-1])
    before = look_up(spark, path, days)[0]
    took = timed(lambda: print_maintained(spark, path))
    print(f"maintenance: {took:.1f} s; look-up {before} s before, {look_up(spark, path, days)[0]} s after")
    spark.stop()
    return 0


def write(spark: SparkSession, path: str, day: dt.date) -> None:
    """Replace the slice of a day."""
    tables.write_days(slice_of(spark, day), path, HISTORY, [day])


def slice_of(spark: SparkSession, day: dt.date) -> DataFrame:
    """Return the slice of a day, in which all intervals are open."""
    return spark.range(TOPICS).selectExpr(
        "'10.0.0.1:9876' AS namesrv_id",
        "concat('topic-', id) AS topic",
        "concat('broker-', id % 10) AS broker_name",
        *("4 AS read_queue_nums", "4 AS write_queue_nums", "6 AS perm", "0 AS topic_sys_flag"),
        f"TIMESTAMP'{FIRST}' AS valid_from",
        "'event' AS opened_by",
        *("named_struct('seq', id, 'no', 0) AS opened_at", "true AS beginning_seen", f"DATE'{day}' AS day"),
    )


def look_up(spark: SparkSession, path: str, days: list[dt.date]) -> tuple[str, int, int, int]:
    """Return the seconds to open the table and count the rows of one day, the files that took, the table's, the log's."""

    def ask() -> DataFrame:
        rows = tables.read_table(spark, path, HISTORY)
        return rows.where(rows["day"] == days[len(days) // 2])

    median = statistics.median(timed(lambda: ask().count()) for _ in range(REPEATS))
    folder = Path(path) / HISTORY.layer / HISTORY.name
    log = [entry for entry in (folder / "_delta_log").iterdir() if not entry.name.startswith(".")]
    return f"{median:.2f}", len(ask().inputFiles()), len(list(folder.glob("*/*.parquet"))), len(log)


def print_maintained(spark: SparkSession, path: str) -> None:
    """Maintain the warehouse, in which no run has pinned anything yet but the last version."""
    now = dt.datetime.now(dt.timezone.utc)
    versions = {HISTORY.name: tables.version_of(spark, path, HISTORY)}
    run = spark.createDataFrame([("last", "published", now, versions)], RUN)
    tables.append(run, path, gold.RUNS)
    care = maintain(spark, path, now, retain_days=0).by_table[HISTORY.name]
    print(f"files {care.before.files} to {care.after.files}, bytes {care.before.bytes:,} to {care.after.bytes:,}")


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

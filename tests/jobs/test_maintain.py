"""Maintenance on tiny tables: rows stay, what runs have pinned stays readable, and the rest goes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import maintain as maintenance
from jobs import tables
from jobs.delta_files import BrokenLogError, log_before, property_of
from jobs.maintain import maintain
from jobs.retention import NoLongerReadableError, Pinned, oldest_versions, require_readable
from schemas import gold
from schemas.table import DATE, INT, STRING, Column, Table

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.timezone.utc)
FACTS = Table(
    "facts",
    "gold",
    "one fact",
    (Column("name", STRING, "Name"), Column("value", INT, "Value"), Column("day", DATE, "Day")),
    key=("name",),
)
NOTES = Table("notes", "gold", "one note", FACTS.columns, key=("name",), partition_by=())


@pytest.fixture(autouse=True)
def _only_these_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warehouse of a test has two tables and the ledger."""
    monkeypatch.setattr(maintenance, "_ALL_TABLES", (FACTS, NOTES, gold.RUNS))


def night(spark: SparkSession, warehouse: Path, number: int) -> dict[str, int]:
    """Write the two days up to `number` days from the first, and publish; return the versions that the run has pinned."""
    path, days = str(warehouse), [dt.date(2026, 1, 1) + dt.timedelta(days=number - back) for back in (1, 0)]
    rows = [(f"{day}", number, day) for day in days]
    tables.write_days(spark.createDataFrame(rows, FACTS.schema), path, FACTS, days)
    tables.append(spark.createDataFrame(rows[-1:], NOTES.schema), path, NOTES)
    versions = {table.name: tables.version_of(spark, path, table) or 0 for table in (FACTS, NOTES)}
    publish(spark, path, f"run-{number}", NOW - dt.timedelta(days=70 - 10 * number), versions)
    return versions


def publish(spark: SparkSession, path: str, run_id: str, at: dt.datetime, versions: Mapping[str, int]) -> None:
    of_run = "run_id STRING, status STRING, finished_time TIMESTAMP, versions MAP<STRING, BIGINT>"
    tables.append(spark.createDataFrame([(run_id, "published", at, dict(versions))], of_run), path, gold.RUNS)


def digests_at(spark: SparkSession, warehouse: Path, versions: Mapping[str, int]) -> dict[str, str]:
    read = {t.name: tables.read_table(spark, str(warehouse), t, versions[t.name]) for t in (FACTS, NOTES)}
    return tables.digests(read)


def ledger(spark: SparkSession, warehouse: Path) -> list[str]:
    return sorted(str(row) for row in tables.read_table(spark, str(warehouse), gold.RUNS).collect())


def data_files(warehouse: Path, table: Table) -> int:
    return len(list((warehouse / table.layer / table.name).rglob("*.parquet")))


def test_what_the_kept_runs_have_pinned_reads_as_before_and_older_files_are_gone(
    spark: SparkSession, warehouse: Path
) -> None:
    """Of five nights, two within the retention: their versions read as before, an older one says why it does not."""
    pinned = [night(spark, warehouse, number) for number in range(1, 6)]
    before = [digests_at(spark, warehouse, versions) for versions in pinned]
    rows = ledger(spark, warehouse)
    leftover = warehouse / "_staging" / "run-crashed"
    leftover.mkdir(parents=True)
    (leftover / "rows.parquet").write_bytes(b"x")

    planned = maintain(spark, str(warehouse), NOW, retain_days=35, dry_run=True)
    assert leftover.exists()
    assert [digests_at(spark, warehouse, versions) for versions in pinned] == before
    assert planned.total.after.files < planned.total.before.files

    done = maintain(spark, str(warehouse), NOW, retain_days=35)
    assert (done.readable, done.runs, done.staging) == (2, 5, ["run-crashed"])
    assert not leftover.exists()
    assert [digests_at(spark, warehouse, versions) for versions in pinned[-2:]] == before[-2:]
    current = {table.name: tables.version_of(spark, str(warehouse), table) or 0 for table in (FACTS, NOTES)}
    assert digests_at(spark, warehouse, current) == before[-1]
    assert ledger(spark, warehouse) == rows
    assert done.by_table["facts"].after.files == planned.by_table["facts"].after.files
    require_readable(spark, str(warehouse), "run-4", pinned[-2])
    with pytest.raises(NoLongerReadableError, match=r"run run-3 is older than .*: facts is readable from version 3 on"):
        require_readable(spark, str(warehouse), "run-3", pinned[-3])
    # Without deleting, every one of the five versions would be readable, and this test would not notice.
    gone = tables.read_table(spark, str(warehouse), FACTS, pinned[0]["facts"])
    with pytest.raises(Exception, match=r"does not exist|FILE_NOT_EXIST|FileNotFound"):
        gone.collect()
    again = maintain(spark, str(warehouse), NOW, retain_days=35)
    assert again.total.compacted_days == 0
    assert again.by_table["facts"].before == again.by_table["facts"].after


def test_a_day_of_many_small_files_becomes_one_file_with_the_same_rows(spark: SparkSession, warehouse: Path) -> None:
    """Five appends leave five files of a table that is not cut by day; after compaction its rows are in one."""
    for number in range(1, 6):
        versions = night(spark, warehouse, number)
    before = digests_at(spark, warehouse, versions)
    done = maintain(spark, str(warehouse), NOW, retain_days=0)
    assert done.by_table["notes"].compacted_days == 1
    now = tables.read_table(spark, str(warehouse), NOTES)
    assert len(now.inputFiles()) == 1
    assert tables.digests({"notes": now})["notes"] == before["notes"]
    assert digests_at(spark, warehouse, versions) == before  # readers of the last run still read the five
    assert data_files(warehouse, NOTES) == 6


def test_a_log_with_a_hole_stops_maintenance_before_it_deletes(spark: SparkSession, warehouse: Path) -> None:
    """Without the commit that says what it removed, nobody knows which files the pinned version needs."""
    for number in range(1, 4):
        night(spark, warehouse, number)
    files = data_files(warehouse, FACTS)
    entry = warehouse / "gold" / "facts" / "_delta_log" / f"{1:020d}.json"
    entry.rename(entry.with_suffix(".away"))
    with pytest.raises(BrokenLogError, match="facts: no commit 1 in its log, and version 0 is pinned"):
        maintain(spark, str(warehouse), NOW, retain_days=400)
    assert data_files(warehouse, FACTS) == files


def test_delta_itself_never_cleans_a_table_of_ours(spark: SparkSession, warehouse: Path) -> None:
    """A new table has the properties; one that was made without them, or for a shorter time, gets them from maintenance."""
    night(spark, warehouse, 1)
    path = str(warehouse)
    assert property_of(spark, path, FACTS, "delta.enableExpiredLogCleanup") == "false"
    assert property_of(spark, path, FACTS, "delta.deletedFileRetentionDuration") == "interval 400 days"
    maintain(spark, path, NOW, retain_days=1000)
    assert property_of(spark, path, FACTS, "delta.deletedFileRetentionDuration") == "interval 1000 days"
    assert property_of(spark, path, FACTS, "delta.logRetentionDuration") == "interval 1000 days"


def test_the_oldest_version_to_keep_is_that_of_the_oldest_kept_run_table_by_table() -> None:
    """A run within the retention keeps all its versions; without one, the last published keeps its own."""
    runs = [
        Pinned(NOW - dt.timedelta(days=90), {"a": 1, "b": 1}),
        Pinned(NOW - dt.timedelta(days=30), {"a": 7, "b": 2}),
        Pinned(NOW - dt.timedelta(days=1), {"a": 9, "b": 2, "c": 0}),
    ]
    assert oldest_versions(runs, NOW - dt.timedelta(days=31)) == {"a": 7, "b": 2, "c": 0}
    assert oldest_versions(reversed(runs), NOW) == {"a": 9, "b": 2, "c": 0}
    assert oldest_versions([], NOW) == {}


@pytest.mark.parametrize(("oldest", "first_kept"), [(0, 0), (9, 0), (10, 10), (19, 10), (20, 20), (25, 20)])
def test_the_log_keeps_a_checkpoint_from_which_the_oldest_version_can_be_rebuilt(oldest: int, first_kept: int) -> None:
    """What goes lies before the last checkpoint up to the oldest version; other files of the log are no entries."""
    log = {f"_delta_log/{number:020d}.json" for number in range(26)}
    log |= {f"_delta_log/{number:020d}.checkpoint.parquet" for number in (10, 20)}
    useless = log_before({*log, "_delta_log/_last_checkpoint", "day=2026-01-01/part-0.parquet"}, oldest)
    assert useless == {name for name in log if int(name.split("/")[1][:20]) < first_kept}

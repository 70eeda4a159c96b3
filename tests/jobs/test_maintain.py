"""Maintenance on tiny tables: rows stay, what runs have pinned stays readable, and the rest goes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from jobs import maintain as maintenance
from jobs import tables
from jobs.delta_files import BrokenLogError, commits_after, log_before, property_of
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


class Maintained(NamedTuple):
    """A warehouse of four nights, of which the last two are within the retention, and what maintenance did to it.

    `pinned` and `digests`: by night; `planned`: what the dry run said; `touched`: whether it changed a file.
    """

    path: Path
    pinned: list[dict[str, int]]
    digests: list[dict[str, str]]
    ledger: list[str]
    planned: maintenance.Maintained
    touched: bool
    done: maintenance.Maintained


@pytest.fixture(scope="module")
def maintained(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Maintained:
    """Write four nights, maintain them dry, and then really."""
    path = tmp_path_factory.mktemp("maintained")
    pinned = [night(spark, path, number) for number in range(1, 5)]
    digests = [digests_at(spark, path, versions) for versions in pinned]
    rows = ledger(spark, path)
    (path / "_staging" / "run-crashed").mkdir(parents=True)
    (path / "_staging" / "run-crashed" / "rows.parquet").write_bytes(b"x")
    files = sorted(path.rglob("*"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance, "_ALL_TABLES", (FACTS, NOTES, gold.RUNS))
        planned = maintain(spark, str(path), NOW, retain_days=45, dry_run=True)
        touched = sorted(path.rglob("*")) != files
        done = maintain(spark, str(path), NOW, retain_days=45)
    return Maintained(path, pinned, digests, rows, planned, touched, done)


def test_what_the_kept_runs_have_pinned_reads_as_before(spark: SparkSession, maintained: Maintained) -> None:
    """The versions of the last two nights, and the ledger, say what they said; what crashed runs left is gone."""
    assert [digests_at(spark, maintained.path, versions) for versions in maintained.pinned[2:]] == maintained.digests[
        2:
    ]
    assert ledger(spark, maintained.path) == maintained.ledger
    assert (maintained.done.readable, maintained.done.runs) == (2, 4)
    assert maintained.done.staging == ["run-crashed"]
    assert not (maintained.path / "_staging" / "run-crashed").exists()
    require_readable(spark, str(maintained.path), "run-3", maintained.pinned[2])


def test_what_only_older_runs_had_pinned_is_gone_and_said_to_be(spark: SparkSession, maintained: Maintained) -> None:
    """A reader of the second night is told why; the files of the first are deleted, or the test before would be blind."""
    with pytest.raises(NoLongerReadableError, match=r"run run-2 is older than .*: facts is readable from version 2 on"):
        require_readable(spark, str(maintained.path), "run-2", maintained.pinned[1])
    first = tables.read_table(spark, str(maintained.path), FACTS, maintained.pinned[0]["facts"])
    with pytest.raises(Exception, match=r"does not exist|FILE_NOT_EXIST|FileNotFound"):
        first.collect()
    care = maintained.done.by_table["facts"]
    assert care.before.files > care.after.files == maintained.planned.by_table["facts"].after.files


def test_small_files_of_a_table_become_one_with_the_same_rows(spark: SparkSession, maintained: Maintained) -> None:
    """Four appends are one file now, with the same rows; readers of the last run still read the four."""
    now = tables.read_table(spark, str(maintained.path), NOTES)
    assert len(now.inputFiles()) == 1
    assert tables.digests({"notes": now})["notes"] == maintained.digests[-1]["notes"]
    pinned = tables.read_table(spark, str(maintained.path), NOTES, maintained.pinned[-1]["notes"])
    assert len(pinned.inputFiles()) == 4
    assert maintained.done.by_table["notes"].compacted_days == 1


def test_a_dry_run_changes_no_file(maintained: Maintained) -> None:
    """It says what would be compacted and deleted, and leaves every file of the warehouse in its place."""
    assert not maintained.touched
    assert maintained.planned.total.compacted_days == maintained.done.total.compacted_days
    assert maintained.planned.staging == ["run-crashed"]


def test_delta_itself_never_cleans_a_table_of_ours(spark: SparkSession, maintained: Maintained) -> None:
    """Neither its log by age, nor, for 400 days, files by a VACUUM."""
    path = str(maintained.path)
    assert property_of(spark, path, FACTS, "delta.enableExpiredLogCleanup") == "false"
    for name in ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"):
        assert property_of(spark, path, FACTS, name) == "interval 400 days"


def test_a_longer_retention_brings_nothing_back(
    spark: SparkSession, maintained: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier maintenance deleted is still said to be gone, and the next one does not ask the log for it."""
    monkeypatch.setattr(maintenance, "_ALL_TABLES", (FACTS, NOTES, gold.RUNS))
    for _ in range(2):
        again = maintain(spark, str(maintained.path), NOW, retain_days=400)
        assert (again.readable, again.runs) == (2, 4)
        with pytest.raises(NoLongerReadableError, match="run run-2 is older"):
            require_readable(spark, str(maintained.path), "run-2", maintained.pinned[1])


def test_a_log_with_a_hole_is_refused() -> None:
    """Without the commit that says what it removed, nobody knows which files an older version needs."""
    log = [f"_delta_log/{number:020d}.json" for number in (0, 1, 3)]
    assert commits_after(log, 2) == log[2:]
    with pytest.raises(BrokenLogError, match="no commit 2 in the log, and version 1 before it is pinned"):
        commits_after(log, 1)


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

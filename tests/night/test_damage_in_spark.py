"""What `sql` says of a damaged warehouse: the file, not a page of Java; only what touches it fails."""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.cli import sql as cli_sql
from jobs.cli.output import Console
from jobs.cli.sql import VERIFIED, Views, register_views
from jobs.errors import LedgerBehindError, TamperedError, UsageError
from jobs.store.places import table_path
from schemas import gold
from tests.ingest.given import warehouse_at
from tests.night.test_damage import QUEUES, data_of, log_of, rewrite, tear
from tests.night.three_days import DAYS

COUNT = "SELECT count(*) AS n FROM {}"
# Rows are counted without opening a file: their log tells.
READ = "SELECT sum(perm) AS n FROM topic_queue_history"
CLOSED = f"SELECT count(*) AS n FROM topic_queue_history WHERE closed_month = '{DAYS[0]:%Y-%m}'"


def asked(spark: SparkSession, warehouse: Path, sql: str, *, is_verified: bool = False) -> str:
    """Ask Spark as `sql` does; return what it writes."""
    return told(spark, sql, register_views(spark, warehouse_at(warehouse), None, [sql], is_verified=is_verified))


def told(spark: SparkSession, sql: str, views: Views) -> str:
    out = io.StringIO()
    given = argparse.Namespace(output=None, format="csv", limit=None)
    cli_sql.show_sql(spark, [sql], views, given, Console(out, io.StringIO()))
    return out.getvalue()


def empty(path: Path) -> None:
    """Leave nothing of a file but its name: Spark takes it for a file without rows."""
    path.write_bytes(b"")


def refused(spark: SparkSession, warehouse: Path, sql: str) -> str:
    with pytest.raises(TamperedError) as found:
        asked(spark, warehouse, sql)
    (line,) = found.value.sentence.splitlines()
    return line


def test_only_what_touches_the_damage_fails(
    spark: SparkSession, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that is gone or torn is named with what helps; other partitions of its table, and other tables, are answered.

    Nothing of the stacks of Spark's attempts is shown.
    """
    sql = READ
    views = register_views(spark, warehouse_at(copied), None, [sql])
    path = data_of(copied, QUEUES, DAYS[-1])
    whole = path.read_bytes()
    for damage in (tear, Path.unlink):  # what is registered already tells of it, too
        damage(path)
        with pytest.raises(TamperedError, match="cannot be read"):
            told(spark, sql, views)
        path.write_bytes(whole)
    for damage in (tear, empty, Path.unlink):
        damage(path)
        line = refused(spark, copied, READ)
        assert line.startswith(f"topic_queue_history: cannot be read: {path}: ")
        assert line.endswith("from a backup")
        assert asked(spark, copied, CLOSED) == "n\n2\n"
        assert asked(spark, copied, COUNT.format("runs")) == "n\n3\n"
    shutil.rmtree(log_of(copied, QUEUES).parent)
    assert "there is no table at" in refused(spark, copied, COUNT.format("topic_queue_history"))
    with pytest.raises(UsageError, match="nope"):
        asked(spark, copied, "SELECT nope FROM findings")
    assert "\tat " not in capfd.readouterr().err


def test_values_rewritten_in_place_are_found_by_whoever_verifies(spark: SparkSession, copied: Path) -> None:
    """By the command's option or the session's setting, before a row is answered; and so is a ledger with other rows."""
    rewrite(data_of(copied, QUEUES, DAYS[-1]), "perm", lambda _: 2)
    sql = COUNT.format("topic_queue_history")
    assert asked(spark, copied, sql).startswith("n\n")
    with pytest.raises(TamperedError, match="topic_queue_history of what is open "):
        asked(spark, copied, sql, is_verified=True)
    spark.conf.set(VERIFIED, "true")
    try:
        assert "topic_queue_history of what is open " in refused(spark, copied, sql)
        assert asked(spark, copied, COUNT.format("findings")).startswith("n\n")
        (file, *_) = Path(table_path(str(copied), gold.RUNS)).glob("*.parquet")
        rewrite(file, "code_version", lambda _: "9")
        with pytest.raises(LedgerBehindError):
            asked(spark, copied, COUNT.format("findings"))
    finally:
        spark.conf.unset(VERIFIED)

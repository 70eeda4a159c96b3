"""Night after night: what a night reads and recomputes, what the ledger says, and what is refused loudly."""

from __future__ import annotations

import datetime as dt
import errno
import io
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from jobs import commands, crash, nightly, tables
from jobs.__main__ import parser
from jobs.check import check
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.digest import Digest, sum_of
from jobs.disk import full_disk
from jobs.gate import GateError
from jobs.ledger import LayoutError, TamperedError
from jobs.ledger import Run as LedgerRun
from jobs.nightly import Summary
from jobs.plan import MissingDayError, holes, plan_of
from jobs.publish import finished_after, gold_digests
from jobs.tables import Slice
from jobs.views import NothingPublishedError, register_views
from jobs.warehouse import WRITTEN_TABLES, Warehouse
from schemas import bronze, gold
from tests.jobs.three_days import DAYS, LOGS, MONTH_MS, NAMESRV, beat, registration, write_log

Run = Callable[..., Summary]
MINUTE = dt.timedelta(minutes=1)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Give the event logs of the three days."""
    folder = tmp_path_factory.mktemp("logs")
    return [write_log(folder, day, lines) for day, lines in zip(DAYS, LOGS, strict=True)]


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Run:
    """Run a night in a warehouse."""
    numbers = iter(range(1_000))

    def run_night(warehouse: Path, *inputs: Path, first: dt.date | None = None, last: dt.date | None = None) -> Summary:
        house, console = house_at(spark, warehouse, f"run-{next(numbers):03}"), Console(io.StringIO(), io.StringIO())
        return nightly.run(house, [str(path) for path in inputs], console, first=first, last=last)

    return run_night


def house_at(spark: SparkSession, warehouse: Path, run_id: str = "look") -> Warehouse:
    """Return a warehouse for one run, or to look at."""
    return Warehouse(spark, str(warehouse), PipelineConf(), run_id, dt.datetime.now(dt.timezone.utc))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the warehouse of `nights`."""
    return tmp_path_factory.mktemp("nights")


@pytest.fixture(scope="module")
def nights(run: Run, logs: list[Path], warehouse: Path) -> list[Summary]:
    """Return the summaries of three nights, one for each day's log."""
    return [run(warehouse, log) for log in logs]


@pytest.fixture
def copied(nights: list[Summary], warehouse: Path, tmp_path: Path) -> Path:
    """Give a copy of the warehouse after the three nights, to be damaged."""
    assert nights[-1].status == "published"
    shutil.copytree(warehouse, tmp_path / "copied")
    return tmp_path / "copied"


def command(spark: SparkSession, warehouse: Path, *words: str) -> None:
    """Run a command as the shell would, but in this session."""
    arguments = parser().parse_args([*words, "--warehouse", str(warehouse)])
    house, console = house_at(spark, warehouse, f"by-hand-{words[0]}"), Console(io.StringIO(), io.StringIO())
    assert commands._COMMANDS[words[0]](house, arguments, console) == 0


def topics_of(spark: SparkSession, *, at: str) -> list[str]:
    """Return the topics in topicQueueTable at an instant, as the registered views say, the second ones left out."""
    rows = spark.sql(f"SELECT topic FROM topic_queue_table_at(TIMESTAMP'{at}') ORDER BY topic").collect()
    return [row["topic"] for row in rows if not row["topic"].endswith("-2")]


# -- cost and result do not depend on the cut ------------------------------------------------------------------------


def test_three_nights_give_the_tables_of_one(run: Run, logs: list[Path], nights: list[Summary], tmp_path: Path) -> None:
    """Each night recomputes its own day, and the day before only where more is known of its end; the tables are equal."""
    assert [night.days for night in nights] == [["2026-03-01"], ["2026-03-02"], ["2026-03-02", "2026-03-03"]]
    at_once = run(tmp_path, *logs)
    assert at_once.days == [day.isoformat() for day in DAYS]
    assert nights[-1].digests == at_once.digests
    assert nights[-1].tables == {**at_once.tables, "topic_configs": 2, "sources": 3}


def test_digests_put_together_are_those_of_the_whole_tables(
    spark: SparkSession, nights: list[Summary], warehouse: Path
) -> None:
    """The digests that three nights have added up equal digests computed over all rows."""
    assert nights[-1].digests == tables.digests(house_at(spark, warehouse).data())


def test_a_digest_can_be_added_to_and_taken_from() -> None:
    """Sums wrap at 64 bits, what is printed can be read back, and taking away undoes adding."""
    one, other = Digest(2, (1 << 64) - 1, 5), Digest(1, 3, 6)
    assert one + other == Digest(3, 2, 3)
    assert sum_of([one, other]) - other == one
    assert Digest.parse(str(one)) == one
    assert str(other) == "1-0000000000000003-0000000000000006"


def test_a_repeated_run_changes_nothing(
    spark: SparkSession, run: Run, logs: list[Path], nights: list[Summary], warehouse: Path
) -> None:
    """Inputs that were read before give no new version of any table, the ledger's neither, and the last run's numbers."""
    house = house_at(spark, warehouse)
    before = {t.name: tables.version_of(spark, house.path, t) for t in (*WRITTEN_TABLES, gold.RUNS)}
    again = run(warehouse, *logs)
    assert (again.status, again.days) == ("nothing_to_do", [])
    assert (again.digests, again.tables, again.verify) == (nights[-1].digests, nights[-1].tables, nights[-1].verify)
    assert {t.name: tables.version_of(spark, house.path, t) for t in (*WRITTEN_TABLES, gold.RUNS)} == before


def test_events_that_come_again_in_another_file_change_nothing(
    run: Run, nights: list[Summary], copied: Path, tmp_path: Path
) -> None:
    """What is written down otherwise but says the same recomputes no day."""
    again = run(copied, write_log(tmp_path, DAYS[0], [dict(sorted(line.items())) for line in LOGS[0]]))
    assert (again.status, again.frames, again.duplicates, again.days) == ("nothing_to_do", 3, 3, [])
    assert again.digests == nights[-1].digests


def test_runs_are_in_order_whatever_the_clock_says() -> None:
    """A run that ends, by the clock, before the one before it stands right behind that in the ledger."""
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
    last = LedgerRun("run", noon.replace(tzinfo=None), [], {}, {}, {}, "", "", {})
    assert finished_after(None, noon) == noon
    assert finished_after(last, noon + MINUTE) == noon + MINUTE
    assert finished_after(last, noon - MINUTE) == noon + dt.timedelta(microseconds=1)


def test_steps_by_hand_publish_what_a_night_does(spark: SparkSession, run: Run, copied: Path, tmp_path: Path) -> None:
    """`publish` names the days that were read in and not replayed; after the other steps it gives the tables of a night."""
    shutil.copytree(copied, tmp_path / "at-night")
    day = DAYS[-1] + dt.timedelta(days=1)
    log = write_log(tmp_path, day, [beat("12:00:00")])
    command(spark, copied, "ingest", "--input", str(log))
    days = plan_of(house_at(spark, copied)).days
    assert day in days
    with pytest.raises(GateError, match=f"not replayed.*{days[0]} to {day}"):
        command(spark, copied, "publish")
    for step in ("replay", "flag", "verify"):
        command(spark, copied, step)
    command(spark, copied, "publish")
    by_night = run(tmp_path / "at-night", log)
    last = house_at(spark, copied).ledger().last
    assert last is not None
    assert gold_digests(last.digests) == by_night.digests


def test_the_ledger_says_what_was_read_and_written(spark: SparkSession, nights: list[Summary], warehouse: Path) -> None:
    """A run's row names its parent, the events it read, the slices it started from and wrote, and outcomes by name."""
    rows = house_at(spark, warehouse).table(gold.RUNS).orderBy("run_id").collect()
    first, second = rows[0], rows[1]
    assert (second["parent_run"], second["layout"], len(second["sources"])) == (first["run_id"], gold.LAYOUT, 1)
    read = {(cut["table"], cut["day"]) for cut in second["inputs"]}
    assert {("heartbeats", DAYS[1]), ("registrations", DAYS[1]), ("topic_queue_history", DAYS[0])} <= read
    assert {cut["day"] for cut in second["outputs"]} == {DAYS[1]}
    assert {name: second["counts"][f"outcome.{name}"] for name in ("applied", "refreshed")} == {
        "applied": 1,
        "refreshed": 2,
    }
    assert {"validate", "replay", "flag", "verify"} <= set(second["seconds"])
    assert len(nights) == len(rows)


def test_a_backfill_stops_where_nothing_changes_any_more(run: Run, nights: list[Summary], copied: Path) -> None:
    """Asked for one day, a night recomputes that day only, since it ends as it did, and publishes the same tables."""
    again = run(copied, first=DAYS[0], last=DAYS[0])
    assert (again.status, again.days) == ("published", ["2026-03-01"])
    assert again.digests == nights[-1].digests


def test_late_events_reach_the_days_after_them(run: Run, logs: list[Path], copied: Path, tmp_path: Path) -> None:
    """A topic that is deleted on the first day after all is missing on the days after it too, as if read in time."""
    delete = {"kind": "admin", "time": "11:00:00", "code": 216, "topic": "T", "cluster_name": "C", "response_code": 0}
    late = write_log(tmp_path, DAYS[0], [delete], "-late")
    again = run(copied, late)
    assert again.days == [day.isoformat() for day in DAYS]
    assert again.digests == run(tmp_path / "in-time", *logs, late).digests


# -- what readers see ------------------------------------------------------------------------------------------------


def test_readers_see_what_an_earlier_run_said(spark: SparkSession, nights: list[Summary], warehouse: Path) -> None:
    """By its id, or by a time at which it was the last: broker-b's topic was there when nobody knew of the third day."""
    at = "2026-03-02 23:59:59"
    register_views(spark, str(warehouse))
    assert topics_of(spark, at=at) == ["T"]
    finished = spark.table("runs").where(F.col("run_id") == nights[1].run_id).collect()[0]["finished_time"]
    for as_known_at in (nights[1].run_id, finished.replace(tzinfo=dt.timezone.utc)):
        register_views(spark, str(warehouse), as_known_at)
        assert topics_of(spark, at=at) == ["T", "U"]
        assert spark.table("runs").count() == 2
        assert spark.table("heartbeats").count() == 2
    with pytest.raises(NothingPublishedError, match="run-none"):
        register_views(spark, str(warehouse), "run-none")


# -- what is refused -------------------------------------------------------------------------------------------------


def test_a_day_without_events_is_named(run: Run, copied: Path) -> None:
    """A day that was asked for, and on which nothing is recorded, ends the run with what there is."""
    with pytest.raises(MissingDayError, match=r"2026-03-07; recorded are 3 day\(s\), 2026-03-01 to 2026-03-03"):
        run(copied, first=dt.date(2026, 3, 7))


def test_holes_are_found_between_recorded_days() -> None:
    """Per name server; where a recording begins is no hole, and what earlier runs read fills one."""
    day = dt.date(2026, 3, 9)
    read = [Slice("heartbeats", day, NAMESRV), Slice("registrations", day, "new:1"), Slice("findings", day, "x:1")]
    earlier = [Slice("heartbeats", day - dt.timedelta(days=3), NAMESRV), Slice("quarantine", day, None)]
    assert holes(read, lambda _: earlier) == [
        f"hole: nothing of {NAMESRV} is recorded on 2026-03-07 to 2026-03-08, but on 2026-03-06 and 2026-03-09"
    ]
    assert holes(read[:1], lambda _: [Slice("route_observations", day - dt.timedelta(days=1), NAMESRV)]) == []


@pytest.mark.parametrize(("table", "day"), [(gold.BROKER_ADDR_HISTORY, DAYS[2]), (bronze.HEARTBEATS, DAYS[1])])
def test_rows_that_somebody_else_changed_are_refused(
    spark: SparkSession, run: Run, copied: Path, tmp_path: Path, table: Any, day: dt.date
) -> None:
    """A slice from which a night starts, or that a run has read, was written to: the error names it and what takes it back."""
    path = tables.table_path(str(copied), table)
    command(spark, copied, "sql", f"UPDATE delta.`{path}` SET broker_name = 'x' WHERE day = DATE'{day}'")
    more = write_log(tmp_path, dt.date(2026, 3, 4), [beat("12:00:00")])
    with pytest.raises(TamperedError, match=f"{table.name} of {day} .* the ledger says [12]-") as refused:
        run(copied, more)
    register_views(spark, str(copied))
    assert {row[0] for row in spark.table(table.name).select("broker_name").collect()} >= {"broker-a"}
    (remedy,) = re.findall(r"RESTORE TABLE .* TO VERSION AS OF \d+", str(refused.value))
    command(spark, copied, "sql", remedy)
    assert run(copied, more).status == "published"


def test_a_file_that_was_exchanged_is_found(spark: SparkSession, run: Run, copied: Path, tmp_path: Path) -> None:
    """Rows that changed under the log's back: `check` names the slice, and a night that starts from it is refused."""
    folder = copied / "gold" / gold.BROKER_ADDR_HISTORY.name / f"day={DAYS[2]}"
    (path,) = folder.glob("*.parquet")
    spark.read.parquet(str(path)).withColumn("zone_name", F.lit("x")).coalesce(1).write.parquet(str(tmp_path / "other"))
    (other,) = (tmp_path / "other").glob("*.parquet")
    shutil.copyfile(other, path)
    (path.parent / f".{path.name}.crc").unlink()
    (wrong,) = check(house_at(spark, copied)).wrong
    assert wrong.startswith("broker_addr_history")
    with pytest.raises(TamperedError, match=f"{DAYS[2]}"):
        run(copied, write_log(tmp_path, dt.date(2026, 3, 4), [beat("12:00:00")]))


def test_an_intact_warehouse_passes_the_check(spark: SparkSession, nights: list[Summary], warehouse: Path) -> None:
    """Every slice of every table is as published."""
    checked = check(house_at(spark, warehouse))
    assert (checked.run_id, checked.wrong) == (nights[-1].run_id, [])
    assert checked.slices > 20


@pytest.mark.parametrize(
    ("layout", "words"), [(None, "layout 1, of an older"), (gold.LAYOUT + 1, "of a newer version")]
)
def test_another_layout_is_refused(
    spark: SparkSession, run: Run, logs: list[Path], tmp_path: Path, layout: int | None, words: str
) -> None:
    """A ledger without the layout's number is of an older version; nothing is read into such a warehouse."""
    nullable = T.StructType([T.StructField(field.name, field.dataType) for field in gold.RUNS.schema])
    row = {"run_id": "1", "status": "published", "layout": layout, "finished_time": dt.datetime.now(dt.timezone.utc)}
    frame = spark.createDataFrame([tuple(row.get(name) for name in gold.RUNS.column_names)], nullable)
    frame = frame if layout is not None else frame.drop("layout")
    frame.write.format("delta").save(tables.table_path(str(tmp_path), gold.RUNS))
    with pytest.raises(LayoutError, match=words):
        run(tmp_path, logs[0])
    assert not (tmp_path / "bronze").exists()


def test_a_full_disk_is_told_from_other_failures(tmp_path: Path) -> None:
    """The sentence names the folder whose disk is full, however deep the cause lies; other errors are none of its business."""
    error = RuntimeError("the task failed")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "gold" / "part-0"))
    said = full_disk(error, str(tmp_path))
    assert said is not None
    assert said.startswith(f"the disk of {tmp_path} (")
    assert full_disk(OSError(errno.EACCES, "Permission denied"), str(tmp_path)) is None


# -- crashes ---------------------------------------------------------------------------------------------------------


class CrashError(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the log of a registration on the second day that comes after the third night."""
    lines = [registration("broker-c", "13:00:00", "V", MONTH_MS)]
    return write_log(tmp_path_factory.mktemp("late"), DAYS[1], lines, "-late")


@pytest.fixture(scope="module")
def undisturbed(
    run: Run, nights: list[Summary], warehouse: Path, late: Path, tmp_path_factory: pytest.TempPathFactory
) -> Summary:
    """Return the summary of the night that reads `late` and is not disturbed."""
    assert nights[-1].status == "published"
    folder = tmp_path_factory.mktemp("undisturbed") / "copy"
    shutil.copytree(warehouse, folder)
    return run(folder, late)


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make crash points raise instead of killing the tests; the point is set with `setenv`."""

    def die(*_: object) -> None:
        raise CrashError

    monkeypatch.setattr("os.kill", die)
    return monkeypatch


STEPS = ("ingest", "validate", "replay", "verify", "flag")
ALWAYS = ("replay:after", "ledger:before")
ON_DEMAND = pytest.mark.skipif("NAMESRV_ALL_CRASHES" not in os.environ, reason="minutes: NAMESRV_ALL_CRASHES=1")
# A run that dies when its row is in the ledger is published: nothing is left to do.
BEFORE = ("sources:before", "publish:before", "ledger:before")
POINTS = [*(f"{step}:{when}" for step in STEPS for when in ("before", "after")), *BEFORE]


@pytest.mark.parametrize("point", [p if p in ALWAYS else pytest.param(p, marks=ON_DEMAND) for p in POINTS])
def test_a_run_after_a_crash_gives_the_same_tables(
    spark: SparkSession,
    run: Run,
    copied: Path,
    late: Path,
    undisturbed: Summary,
    dying: pytest.MonkeyPatch,
    point: str,
) -> None:
    """Readers see nothing of a night that died, and the next one gives what it would have given."""
    dying.setenv(crash.VARIABLE, point)
    with pytest.raises(CrashError):
        run(copied, late)
    dying.delenv(crash.VARIABLE)
    register_views(spark, str(copied))
    assert topics_of(spark, at="2026-03-03 12:00:00") == ["T"]
    again = run(copied, late)
    assert (again.days, again.digests) == (undisturbed.days, undisturbed.digests)
    register_views(spark, str(copied))
    assert topics_of(spark, at="2026-03-03 12:00:00") == ["T", "V"]

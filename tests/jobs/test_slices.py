"""Slices that are opened once, and those that are held ready."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import slice_files, slices, tables
from jobs import warehouse as warehouses
from jobs.conf import PipelineConf
from jobs.slices import held
from jobs.warehouse import Warehouse
from schemas import bronze
from schemas.table import DATE, LONG, STRING, Column, Table
from tests.jobs import rows as literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession


def test_frames_without_rows_are_known_to_be_empty(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted; what has none drops out of plans, what is small is cached, what is large is left as it is."""
    monkeypatch.setattr(slices, "_HELD_ROWS", 10)
    frames = {"none": spark.range(5).where("id > 7"), "few": spark.range(10), "many": spark.range(11)}
    ready, rows = held(spark, frames)
    assert rows == {"none": 0, "few": 10, "many": 11}
    assert [ready[name].count() for name in frames] == [0, 10, 11]
    assert ready["none"].schema == frames["none"].schema
    joined = ready["many"].join(ready["none"], on="id")
    assert joined._jdf.queryExecution().optimizedPlan().maxRows().get() == 0
    assert (ready["few"].storageLevel.useMemory, ready["many"].storageLevel.useMemory) == (True, False)
    ready["few"].unpersist()


DAY, NEXT = dt.date(2026, 11, 21), dt.date(2026, 11, 22)
NUMBERS = Table(
    "numbers",
    "gold",
    "one row per number",
    (Column("day", DATE, "Its day", required=True), Column("n", LONG, "It"), Column("text", STRING, "In words")),
    key=("n",),
)


def _is_read_by_delta(frame: DataFrame) -> bool:
    """Return whether Delta looks for the files of `frame` in each query."""
    leaf = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    return "delta" in leaf.relation().location().getClass().getName()


def test_slices_are_read_as_their_files(spark: SparkSession, warehouse: Path) -> None:
    """What is read is what Delta reads: the files of the version and the days asked for, without those replaced since."""
    path = str(warehouse)
    for rows in ([(DAY, 1, "one"), (DAY, 2, None)], [(DAY, 3, "three")]):
        tables.write_days(spark.createDataFrame(rows, NUMBERS.schema), path, NUMBERS, [DAY])
        tables.write_days(spark.createDataFrame([(NEXT, 4, "four")], NUMBERS.schema), path, NUMBERS, [NEXT])
    whole = tables.read_table(spark, path, NUMBERS)
    first = tables.read_table(spark, path, NUMBERS, 0)
    for frame, days in ((whole, [DAY]), (whole, [NEXT]), (whole, [DAY, NEXT]), (first, [DAY])):
        found = slice_files.files_of_days(spark, path, NUMBERS, frame, days)
        assert not _is_read_by_delta(found)
        assert found.dtypes == frame.dtypes
        assert sorted(found.collect()) == sorted(tables.of_days(frame, days).collect())
    none = slice_files.files_of_days(spark, path, NUMBERS, whole, [dt.date(2026, 11, 23)])
    assert none._jdf.queryExecution().optimizedPlan().maxRows().get() == 0


def test_a_run_knows_the_files_that_it_wrote(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a warehouse gives is what Delta reads, after each write and after another's; files are looked for once."""
    looked: list[str] = []

    def look(*given: Any) -> dict[dt.date, list[str]] | None:
        looked.append("looked")
        return found(*given)

    found = slice_files.files_by_day
    monkeypatch.setattr(slice_files, "files_by_day", look)
    house = Warehouse(spark, str(warehouse), PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))

    def are_given() -> bool:
        """Return whether the slices of each day, and of both, are the table's."""
        now = tables.read_table(spark, str(warehouse), NUMBERS)
        return all(
            sorted(house.slices([NUMBERS], days)["numbers"].collect()) == sorted(tables.of_days(now, days).collect())
            for days in ([DAY], [NEXT], [DAY, NEXT])
        )

    assert not house.is_without(NUMBERS, DAY)  # it has not been written
    for day, rows in ((DAY, [1, 2]), (NEXT, [3]), (DAY, [4]), (NEXT, [])):
        house.write(spark.createDataFrame([(day, n, None) for n in rows], NUMBERS.schema), NUMBERS, day)
        assert are_given()
        assert house.is_without(NUMBERS, day) == (not rows)
    assert len(looked) == 1
    tables.write_days(spark.createDataFrame([(NEXT, 5, "five")], NUMBERS.schema), str(warehouse), NUMBERS, [NEXT])
    assert not are_given()
    house.forget(NUMBERS)
    assert are_given()
    assert len(looked) == 2


def test_large_slices_are_several_files(spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as their rows need, if it is known how many there are; read back, they are one slice."""
    monkeypatch.setattr(tables, "_ROWS_PER_FILE", 10)
    rows = spark.range(35).selectExpr(f"DATE'{DAY}' AS day", "id AS n", "CAST(id AS STRING) AS text").repartition(8)
    for known, files in ((0, 1), (35, 4)):
        house = Warehouse(spark, str(warehouse), PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))
        house.write(rows, NUMBERS, DAY, rows=known)
        found = house.slices([NUMBERS], [DAY])["numbers"]
        assert len(found.inputFiles()) == files
        assert sorted(row["n"] for row in found.collect()) == list(range(35))


def test_a_union_has_all_columns_as_they_first_appear(spark: SparkSession) -> None:
    """However many frames there are; what one does not have is NULL, and rows keep their order."""
    frames = [spark.createDataFrame([(n, f"v{n}")], f"n INT, c{n % 3} STRING") for n in range(5)]
    for count in range(1, 6):
        united = tables.union_all(frames[:count])
        assert united.columns == ["n", "c0", "c1", "c2"][: 1 + min(count, 3)]
        assert [row.asDict() for row in united.collect()] == [
            {column: n if column == "n" else f"v{n}" if column == f"c{n % 3}" else None for column in united.columns}
            for n in range(count)
        ]


def test_another_ones_commit_does_not_tell_what_was_written(spark: SparkSession, warehouse: Path) -> None:
    """The last commit counts only if it is this session's, and about the days that it wrote."""
    rows = spark.createDataFrame([(DAY, 1, "one")], NUMBERS.schema)
    house = Warehouse(spark, str(warehouse), PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))
    house.write(rows, NUMBERS, DAY)
    files = slice_files.files_last_written(spark, str(warehouse), NUMBERS, [DAY])
    assert files is not None
    assert spark.read.parquet(*files[DAY]).count() == 1
    assert slice_files.files_last_written(spark, str(warehouse), NUMBERS, [NEXT]) is None
    spark.conf.set(tables.USER_METADATA, "another")
    assert slice_files.files_last_written(spark, str(warehouse), NUMBERS, [DAY]) is None


def test_a_table_that_is_more_than_its_files_is_left_to_delta(spark: SparkSession, warehouse: Path) -> None:
    """Rows that a deletion vector hides are in the files, and not in the slice."""
    path, folder = str(warehouse), tables.table_path(str(warehouse), NUMBERS)
    rows = [(DAY, number, str(number)) for number in range(100)]
    tables.write_days(spark.createDataFrame(rows, NUMBERS.schema), path, NUMBERS, [DAY])
    spark.sql(f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE n = 7")
    frame = tables.read_table(spark, path, NUMBERS)
    assert spark.read.parquet(*frame.inputFiles()).count() == 100
    found = slice_files.files_of_days(spark, path, NUMBERS, frame, [DAY])
    assert _is_read_by_delta(found)
    assert found.count() == 99
    house = Warehouse(spark, path, PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))
    assert house.slices([NUMBERS], [DAY])["numbers"].count() == 99
    assert (house.is_without(NUMBERS, DAY), house.is_without(NUMBERS, NEXT)) == (False, True)
    house.write(frame.where("n > 50"), NUMBERS, DAY)
    assert house.slices([NUMBERS], [DAY])["numbers"].count() == 49


def test_a_name_server_goes_on_if_anything_is_recorded_of_it_later(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next day mostly tells; a name server that is silent for a day, or for good, is told by all days, asked once."""
    days = [DAY + dt.timedelta(days=n) for n in range(4)]
    heard = {"steady": days, "silent for a day": [days[0], days[2], days[3]], "gone": days[:1]}
    events = [(name, day) for name, on in heard.items() for day in on]
    rows = [{"namesrv_id": name, "day": day, "event_id": f"{name} {day}"} for name, day in events]
    path = str(warehouse)
    tables.append(literal.frame(spark, nullable(bronze.HEARTBEATS), rows[::2]), path, nullable(bronze.HEARTBEATS))
    tables.append(literal.frame(spark, nullable(bronze.ADMIN_EVENTS), rows[1::2]), path, nullable(bronze.ADMIN_EVENTS))
    source = {"content_sha256": "0", "ingest_run": "run", "frames": len(rows), "days": days}
    tables.append(literal.frame(spark, nullable(bronze.SOURCES), [source]), path, nullable(bronze.SOURCES))
    asked: list[str] = []
    read = warehouses._last_days

    def ask(frames: Iterable[DataFrame]) -> dict[str, dt.date]:
        asked.append("all days")
        return read(frames)

    monkeypatch.setattr(warehouses, "_last_days", ask)
    house = Warehouse(spark, path, PipelineConf(), "run", dt.datetime.now(dt.timezone.utc))
    going_on = [house.going_on([*heard, "never heard of"], day) for day in days]
    assert going_on == [{"steady", "silent for a day"}] * 3 + [set()]
    assert house.going_on(["steady"], days[0]) == {"steady"}
    assert asked == ["all days"]


def nullable(table: Table) -> Table:
    """Return the table with columns of which none is required."""
    return replace(table, columns=tuple(replace(column, required=False) for column in table.columns))

"""What a run sees and commits: nothing of runs that died, everything of people who only rearranged, nothing half."""

from __future__ import annotations

import datetime as dt
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, write_deltalake

from jobs.errors import BrokenLogError, TableFeatureError, TamperedError, WarehouseBusyError
from jobs.store import delta_log
from jobs.store.delta_log import head_of
from jobs.store.places import table_path
from namesrv_day.arrow import table_of
from schemas import bronze
from tests.store.tiny import (
    DAY,
    EXPIRED,
    HEARTBEATS,
    NEXT,
    NOTES,
    NOW,
    NUMBERS,
    ONE,
    TWO,
    beat,
    ingest,
    names,
    night,
    numbers,
    opened,
    publish,
    put,
    removal,
    somebody_appends,
    warehouse_at,
    write,
)

LATER = NOW + dt.timedelta(hours=1)


def actions(path: Path, table: Any, version: int) -> list[dict[str, Any]]:
    """Return what a commit says, line by line."""
    text = (Path(table_path(str(path), table)) / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# -- a run and its changes -------------------------------------------------------------------------------------------


def test_a_run_sees_its_changes_before_they_are_committed(tmp_path: Path) -> None:
    """Nobody else does; a commit a table makes them everybody's, and what is not asked for is not committed."""
    warehouse = warehouse_at(tmp_path)
    assert numbers(warehouse) == []
    put(warehouse, NUMBERS, DAY, {"n": 1}, {"n": 2})
    put(warehouse, NUMBERS, NEXT, {"n": 3})
    warehouse.replace(NOTES, None, [write(warehouse, NOTES, None, {"n": 9})])
    assert (numbers(warehouse), numbers(warehouse, days=[NEXT]), numbers(warehouse, NOTES)) == ([1, 2, 3], [3], [9])
    assert numbers(warehouse_at(tmp_path)) == []
    assert warehouse.commit([NUMBERS]) == {"numbers": 0}
    assert (numbers(warehouse_at(tmp_path)), numbers(warehouse_at(tmp_path), NOTES)) == ([1, 2, 3], [])
    assert warehouse.commit() == {"notes": 0}
    assert warehouse.commit() == {}


def test_a_day_is_replaced_and_others_stay(tmp_path: Path) -> None:
    """Also by nothing, and twice before a commit; files of the day that were never committed are nobody's."""
    warehouse = warehouse_at(tmp_path)
    put(warehouse, NUMBERS, DAY, {"n": 1})
    put(warehouse, NUMBERS, NEXT, {"n": 2})
    warehouse.commit()
    warehouse = warehouse_at(tmp_path)
    put(warehouse, NUMBERS, DAY, {"n": 3})
    put(warehouse, NUMBERS, DAY, {"n": 4})
    assert warehouse.commit() == {"numbers": 1}
    assert numbers(warehouse) == numbers(warehouse_at(tmp_path)) == [2, 4]
    warehouse.replace(NUMBERS, [NEXT], [])
    assert warehouse.commit() == {"numbers": 2}
    assert numbers(warehouse) == numbers(warehouse_at(tmp_path)) == [4]


def test_files_are_exchanged_one_by_one(tmp_path: Path) -> None:
    """What is added and left out again before a commit is not in it."""
    warehouse = warehouse_at(tmp_path)
    one, two, three = (write(warehouse, NUMBERS, DAY, {"n": n}) for n in (1, 2, 3))
    warehouse.change(NUMBERS, [one, two])
    warehouse.commit()
    warehouse.change(NUMBERS, [three], [file for file in warehouse.files(NUMBERS) if file.path == one.path])
    warehouse.change(NUMBERS, [], [three])
    warehouse.commit()
    assert numbers(warehouse_at(tmp_path)) == [2]
    assert [kind for action in actions(tmp_path, NUMBERS, 1) for kind in action] == ["commitInfo", "remove"]


@pytest.mark.slow
def test_small_files_of_what_every_run_adds_to_are_put_together(tmp_path: Path) -> None:
    """Every run adds a row and reads them all: there are never many files, and no row is lost or moved."""
    counts = []
    for number in range(40):
        warehouse = warehouse_at(tmp_path, f"run-{number}")
        warehouse.append(NOTES, table_of([{"n": number}], NOTES))
        warehouse.commit()
        counts.append(len(warehouse_at(tmp_path).files(NOTES)))
    assert (max(counts), counts[15:18], counts[-1]) == (16, [16, 1, 2], 8)
    assert numbers(warehouse_at(tmp_path), NOTES) == list(range(40))


def test_a_table_without_rows_is_created_and_not_written_again(tmp_path: Path) -> None:
    """Readers find a table for everything that a run has looked at; what changes nothing makes no version."""
    warehouse = warehouse_at(tmp_path)
    for _ in range(2):
        warehouse.replace(NUMBERS, [DAY], [])
        assert warehouse.commit() == {"numbers": 0}


def test_a_new_table_is_an_ordinary_one(tmp_path: Path) -> None:
    """The oldest protocol, comments on the table and its columns, properties, days as partitions, and who wrote it."""
    warehouse = warehouse_at(tmp_path, "run-7")
    put(warehouse, EXPIRED, DAY, removal("X"))
    warehouse.commit()
    table = opened(tmp_path, EXPIRED)
    protocol, known = table.protocol(), table.metadata()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert (known.description, known.partition_columns) == (EXPIRED.grain, ["day"])
    assert known.configuration["delta.deletedFileRetentionDuration"] == "interval 400 days"
    assert known.configuration["delta.logRetentionDuration"] == "interval 400 days"
    assert known.configuration["delta.enableExpiredLogCleanup"] == "false"
    assert known.configuration["delta.enableDeletionVectors"] == "false"
    comments = {field.name: field.metadata["comment"] for field in table.schema().fields}
    assert comments == {column.name: column.comment for column in EXPIRED.columns}
    assert all(field.nullable for field in table.schema().fields)
    assert [commit["userMetadata"] for commit in table.history()] == ["namesrv-history run-7"]
    assert table.to_pyarrow_table().column("broker_name").to_pylist() == ["X"]


def test_later_commits_say_who_made_them_and_keep_the_comments(tmp_path: Path) -> None:
    """A commit is files added and removed, nothing else."""
    for number in (1, 2):
        warehouse = warehouse_at(tmp_path, f"run-{number}")
        put(warehouse, NUMBERS, DAY, {"n": number})
        warehouse.commit()
    said = actions(tmp_path, NUMBERS, 1)
    assert sorted(kind for action in said for kind in action) == ["add", "commitInfo", "remove"]
    assert [a["commitInfo"]["userMetadata"] for a in said if "commitInfo" in a] == ["namesrv-history run-2"]
    assert opened(tmp_path, NUMBERS).schema().fields[1].metadata == {"comment": "It"}


@pytest.mark.slow
def test_many_commits_are_read_from_checkpoints(tmp_path: Path) -> None:
    """Every twentieth version leaves one, and what is read through it is the same."""
    for number in range(45):
        warehouse = warehouse_at(tmp_path)
        warehouse.change(NUMBERS, [write(warehouse, NUMBERS, DAY + dt.timedelta(days=number), {"n": number})])
        warehouse.commit()
    warehouse = warehouse_at(tmp_path)
    assert numbers(warehouse) == list(range(45))
    assert numbers(warehouse, days=[DAY, NEXT]) == [0, 1]
    log = Path(table_path(str(tmp_path), NUMBERS)) / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) == 2


# -- runs that died --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_next_commit_brings_back_what_a_dead_run_replaced(tmp_path: Path) -> None:
    """A day that the next run does not touch is again what was published, in the same single commit, with its statistics."""
    night(tmp_path, "run-1", DAY, removal("first"))
    dead = warehouse_at(tmp_path, "run-2")
    put(dead, EXPIRED, DAY, removal("dead"))
    put(dead, EXPIRED, NEXT, removal("dead"))
    dead.commit()
    assert names(warehouse_at(tmp_path)) == ["dead", "dead"]  # who steps by hand goes on from what there is
    warehouse = night(tmp_path, "run-3", NEXT, removal("third"))
    assert warehouse.versions()["expired_brokers"] == head_of(warehouse.path, EXPIRED) == 2
    assert sorted(opened(tmp_path, EXPIRED).to_pyarrow_table().column("broker_name").to_pylist()) == ["first", "third"]
    back = [a["add"] for a in actions(tmp_path, EXPIRED, 2) if "add" in a and f"day={DAY}" in a["add"]["path"]]
    assert [json.loads(add["stats"])["minValues"]["broker_name"] for add in back] == ["first"]


def test_a_table_that_only_a_dead_run_has_written_is_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first night died: the table is there, and holds nothing for the next one; the log says that it is left out."""
    dead = warehouse_at(tmp_path, "run-1")
    put(dead, EXPIRED, DAY, removal("dead"))
    dead.commit()
    warehouse = warehouse_at(tmp_path, "run-2")
    with caplog.at_level(logging.WARNING):
        warehouse.start_from_published()
    assert names(warehouse) == []
    assert [record.getMessage() for record in caplog.records] == [
        "taken back, since no run has published it: expired_brokers"
    ]
    assert names(night(tmp_path, "run-3", NEXT, removal("new"))) == ["new"]


def test_what_runs_left_in_staging_goes(tmp_path: Path) -> None:
    """A night begins with an empty one."""
    (tmp_path / "_staging" / "run-0").mkdir(parents=True)
    warehouse = warehouse_at(tmp_path)
    assert warehouse.staging == f"{tmp_path}/_staging/run"
    warehouse.start_from_published()
    assert not (tmp_path / "_staging").exists()


# -- other people ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_events_that_somebody_else_changed_are_refused(tmp_path: Path) -> None:
    """Of bronze days that are published; what is new on a day is no harm."""
    warehouse = warehouse_at(tmp_path, "run-1")
    ingest(warehouse, DAY, beat(1, run="run-1"))
    publish(warehouse, [DAY])
    ingest(warehouse_at(tmp_path, "run-2"), NEXT, beat(2, run="run-2"))
    opened(tmp_path, HEARTBEATS).delete(f"day = DATE '{NEXT}'")
    warehouse_at(tmp_path).start_from_published()
    opened(tmp_path, HEARTBEATS).delete(f"day = DATE '{DAY}'")
    with pytest.raises(TamperedError, match=f"heartbeats of {DAY} .*TO VERSION AS OF 1"):
        warehouse_at(tmp_path).start_from_published()


def test_rows_that_somebody_else_adds_to_events_are_seen(tmp_path: Path) -> None:
    """Events are everybody's to bring; a run that died afterwards does not take them along."""
    ingest(warehouse_at(tmp_path, "read-1"), DAY, beat(1))
    somebody_appends(tmp_path, HEARTBEATS, table_of([beat(2)], HEARTBEATS, day=NEXT))
    ingest(warehouse_at(tmp_path, "read-2"), NEXT, beat(3), finish=False)
    assert warehouse_at(tmp_path).rows(HEARTBEATS, columns=["seq"]).column("seq").to_pylist() == [1, 2]


@pytest.mark.slow
def test_rearranged_files_are_nobodys_harm(tmp_path: Path) -> None:
    """Files put together, old ones deleted, properties set: a night starts from that, and does not bring the old files back."""
    warehouse = night(tmp_path, "run-1", DAY, removal("first"))
    warehouse.change(EXPIRED, [write(warehouse, EXPIRED, DAY, removal("second")) for _ in range(2)])
    warehouse.commit()
    publish(warehouse, [DAY])
    table = opened(tmp_path, EXPIRED)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 500 days"})
    (file,) = opened(tmp_path, EXPIRED).file_uris()
    warehouse = warehouse_at(tmp_path, "run-2", LATER)
    warehouse.start_from_published()
    assert [Path(found.path).name for found in warehouse.files(EXPIRED)] == [Path(file).name]
    assert names(night(tmp_path, "run-3", NEXT, removal("next"), at=LATER)) == ["first", "next", "second", "second"]
    assert len(opened(tmp_path, EXPIRED).file_uris()) == 2


def test_files_without_statistics_are_files_too(tmp_path: Path) -> None:
    """Their rows are counted in the file itself."""
    warehouse = night(tmp_path, "run-1", DAY, removal("first"))
    path = Path(table_path(warehouse.path, EXPIRED)) / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (file,) = warehouse_at(tmp_path).files(EXPIRED)
    assert (file.rows, json.loads(file.stats)["maxValues"]["namesrv_id"]) == (1, ONE)


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["deletionVectors", "variantType", "fromTheFuture"])
def test_a_table_that_is_more_than_its_files_is_refused_by_name(tmp_path: Path, feature: str) -> None:
    """Rows that a deletion vector hides are in the files: a reader that does not know it would be wrong in silence."""
    night(tmp_path, "run-1", DAY, removal("first"))
    said = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
    log = Path(table_path(str(tmp_path), EXPIRED)) / "_delta_log"
    (log / f"{1:020d}.json").write_text(json.dumps({"protocol": said}), encoding="utf-8")
    with pytest.raises((TableFeatureError, BrokenLogError), match=f"^expired_brokers: .*{feature}"):
        warehouse_at(tmp_path).files(EXPIRED)
    assert names(warehouse_at(tmp_path), published=True) == ["first"]


@pytest.mark.slow
def test_mapped_columns_are_refused(tmp_path: Path) -> None:
    """Names in the files are others then; the same protocol without mapping is read."""
    night(tmp_path, "run-1", DAY, removal("first"))
    log = Path(table_path(str(tmp_path), EXPIRED)) / "_delta_log"
    known = next(action for action in actions(tmp_path, EXPIRED, 0) if "metaData" in action)
    lines = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, known]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert names(warehouse_at(tmp_path)) == ["first"]
    schema = json.loads(known["metaData"]["schemaString"])
    for number, field in enumerate(schema["fields"]):
        field["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    known["metaData"]["schemaString"] = json.dumps(schema)
    known["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(TableFeatureError, match=r"expired_brokers: .* columnMapping"):
        warehouse_at(tmp_path).files(EXPIRED)


def test_a_table_that_is_cut_otherwise_is_refused(tmp_path: Path) -> None:
    """Somebody has written it anew, by name server: days could no longer be replaced."""
    rows = table_of([removal("X")], EXPIRED, day=DAY)
    write_deltalake(table_path(str(tmp_path), EXPIRED), rows, partition_by=["namesrv_id"])
    with pytest.raises(TableFeatureError, match="partitioned the table by namesrv_id; it was partitioned by day"):
        warehouse_at(tmp_path).files(EXPIRED)


@pytest.mark.slow
def test_a_table_that_only_its_maker_can_write_is_refused_by_name(tmp_path: Path) -> None:
    """It is read, and what must not be guessed at is not written."""
    night(tmp_path, "run-1", DAY, removal("first"))
    log = Path(table_path(str(tmp_path), EXPIRED)) / "_delta_log"
    said = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}}
    (log / f"{1:020d}.json").write_text(json.dumps(said), encoding="utf-8")
    assert names(warehouse_at(tmp_path)) == ["first"]
    with pytest.raises(
        TableFeatureError, match=r"expired_brokers: cannot be written: .*checkpointProtection.* from a backup"
    ):
        night(tmp_path, "run-2", NEXT, removal("second"))


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["cut", "missing", "gone"])
def test_a_log_that_cannot_be_read_is_said_to_be(tmp_path: Path, harm: str) -> None:
    """A commit that is cut short or missing, or no log at all where the ledger pins a version."""
    for number in (1, 2, 3):
        night(tmp_path, f"run-{number}", DAY, removal("X"), at=NOW + dt.timedelta(hours=number))
    log = Path(table_path(str(tmp_path), EXPIRED)) / "_delta_log"
    commit = log / f"{1:020d}.json"
    if harm == "cut":
        commit.write_text(commit.read_text(encoding="utf-8")[:200], encoding="utf-8")
    else:
        for path in [commit] if harm == "missing" else sorted(log.iterdir()):
            path.unlink()
    with pytest.raises(TamperedError, match=r"^expired_brokers: ") as said:
        warehouse_at(tmp_path).files(EXPIRED)
    assert "\n" not in str(said.value)


@pytest.mark.slow
def test_a_table_that_went_back_is_refused(tmp_path: Path) -> None:
    """The ledger pins a version that is not there: a folder was brought back from an old backup."""
    for number in (1, 2):
        night(tmp_path, f"run-{number}", DAY, removal("X"), at=NOW + dt.timedelta(hours=number))
    (Path(table_path(str(tmp_path), EXPIRED)) / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(TamperedError, match="expired_brokers: the ledger pins version 1, but the table is at 0"):
        warehouse_at(tmp_path).start_from_published()


@pytest.mark.slow
def test_a_commit_of_somebody_else_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Rows that came while a run was at work end it; files that were only rearranged do not."""
    night(tmp_path, "run-1", DAY, removal("first"))
    warehouse, other = warehouse_at(tmp_path, "run-2"), warehouse_at(tmp_path, "run-3")
    for run in (warehouse, other):
        run.start_from_published()
        put(run, EXPIRED, NEXT, removal(run.run_id))
    opened(tmp_path, EXPIRED).alter.set_table_properties({"delta.logRetentionDuration": "interval 500 days"})
    assert warehouse.commit() == {"expired_brokers": 2}
    with pytest.raises(WarehouseBusyError, match="expired_brokers: somebody else"):
        other.commit()


def test_two_commits_on_one_version_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the instant between looking and committing: the second is refused and leaves nothing."""
    night(tmp_path, "run-1", DAY, removal("first"))
    warehouse = warehouse_at(tmp_path, "run-2")
    put(warehouse, EXPIRED, NEXT, removal("ours"))

    def meanwhile(*_: object) -> list[object]:
        opened(tmp_path, EXPIRED).delete("true", commit_properties=CommitProperties({"userMetadata": "theirs"}))
        return []

    monkeypatch.setattr(delta_log, "commits_of", meanwhile)
    with pytest.raises(WarehouseBusyError, match="expired_brokers: somebody else"):
        warehouse.commit()
    assert opened(tmp_path, EXPIRED).history(1)[0]["userMetadata"] == "theirs"


# -- what has been recorded ------------------------------------------------------------------------------------------


def test_the_name_servers_of_a_day_are_those_of_all_its_files(tmp_path: Path) -> None:
    """Published or not; what is read meanwhile counts."""
    days = [DAY, DAY + dt.timedelta(days=1)]
    warehouse = warehouse_at(tmp_path, "read")
    ingest(warehouse, days[0], beat(1, "steady:1"), beat(2, "silent:1"))
    publish(warehouse, days[:1])
    warehouse = warehouse_at(tmp_path, "more")
    ingest(warehouse, days[1], beat(3, "steady:1"))
    assert [warehouse.namesrvs_on(day) for day in days] == [{"steady:1", "silent:1"}, {"steady:1"}]
    ingest(warehouse, days[1], beat(9, TWO))
    assert warehouse.namesrvs_on(days[1]) == {"steady:1", TWO}


@pytest.mark.slow
def test_bronze_tables_are_pinned_as_finished_runs_left_them(tmp_path: Path) -> None:
    """The ledger's row names the version of each table that there is, of the ones this run left alone too."""
    warehouse = warehouse_at(tmp_path, "run-1")
    ingest(warehouse, DAY, beat(1, run="run-1"))
    publish(warehouse, [DAY])
    ingest(warehouse_at(tmp_path, "run-2"), DAY, beat(2), finish=False)
    warehouse = night(tmp_path, "run-3", DAY, removal("X"), at=LATER)
    last = warehouse.ledger().last
    assert last is not None
    assert last.versions == {"heartbeats": 0, "sources": 0, "expired_brokers": 0}
    assert bronze.SOURCES.name in warehouse.versions()

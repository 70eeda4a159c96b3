"""Rewrites by hand, by somebody who knows this software: each has a place in which what is published could be another thing.

`ATTACKS`: each with what the sentence that finds it names. They work on the warehouse of `tests.torture.rewrites`.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from jobs.store import delta_log
from jobs.store.files import read_files, write_file
from jobs.store.maintain import maintain
from jobs.store.places import table_path
from jobs.store.published import HISTORY, LAST_RUN, OLDEST
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import table_of
from schemas import bronze, gold
from schemas.table import Table
from tests.store.tiny import DAY, EXPIRED, HEARTBEATS, NOW, ONE, publish, removal, warehouse_at, write
from tests.torture.rewrites import DAYS, rechained

Json = dict[str, Any]
TOPICS = gold.TOPIC_QUEUE_HISTORY


def later(path: Path) -> Warehouse:
    """Return a run of ours behind the checkpoint."""
    return warehouse_at(path, "run-9", NOW + dt.timedelta(days=9))


def rows_of_ledger(path: Path) -> tuple[Warehouse, list[Json]]:
    warehouse = later(path)
    return warehouse, sorted(warehouse.rows(gold.RUNS).to_pylist(), key=lambda row: row["finished_time"])


def in_log(path: Path, table: Table, change: Callable[[Json], object], version: int | None = None) -> None:
    """Change the actions of a commit, the last one by default."""
    logs = sorted(Path(table_path(str(path), table), "_delta_log").glob("*.json"))
    log = logs[-1 if version is None else version]
    actions = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), "utf-8")


def added_commit(path: Path, table: Table, *actions: Json) -> None:
    """Write one more commit."""
    number = delta_log.head_of(str(path), table) + 1
    by = {"commitInfo": {"operation": "OPTIMIZE", "userMetadata": ""}}
    log = Path(table_path(str(path), table), "_delta_log", f"{number:020d}.json")
    log.write_text("".join(json.dumps(action) + "\n" for action in (by, *actions)), "utf-8")


def instead(path: Path, table: Table, file: Any, other: Any) -> None:
    """Have a commit that changes no rows, as it says, put another file in the place of one."""
    parts = {"day": str(file.day)} if file.day else {}
    gone = {"path": file.path, "dataChange": False, "partitionValues": parts, "size": file.size, "deletionTimestamp": 1}
    new = {"path": other.path, "dataChange": False, "partitionValues": parts, "size": other.size, "stats": other.stats}
    added_commit(path, table, {"add": {**new, "modificationTime": 1}}, {"remove": gone})


def forged_checkpoint(path: Path, table: Table, version: int, change: Callable[[Json], object]) -> None:
    """Make a checkpoint of a version that differs from the commits up to it."""
    DeltaTable(table_path(str(path), table), version=version).create_checkpoint()
    file = Path(table_path(str(path), table), "_delta_log", f"{version:020d}.checkpoint.parquet")
    read = pq.read_table(file)
    rows = [row for row in read.to_pylist() if change(row) is not False]
    pq.write_table(pa.Table.from_pylist(rows, read.schema), file)


def of_add(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda row: change(row["add"]) if row.get("add") else None


# -- the ledger ----------------------------------------------------------------------------------------------------------


def drop_a_run(path: Path) -> None:
    """Leave a run out of the ledger, and make all hashes behind it anew."""
    warehouse, rows = rows_of_ledger(path)
    rechained(warehouse, [row for row in rows if row["run_id"] != "run-1"])


def swap_two_runs(path: Path) -> None:
    """Let two runs have been published in the other order."""
    warehouse, rows = rows_of_ledger(path)
    rows[1]["finished_time"], rows[2]["finished_time"] = rows[2]["finished_time"], rows[1]["finished_time"]
    rechained(warehouse, rows)


def say_another_previous(path: Path) -> None:
    """Have a row say another row before it than there is."""
    warehouse, rows = rows_of_ledger(path)
    rows[2]["previous_sha256"] = "1" * 64
    warehouse.write(gold.RUNS, table_of(rows, gold.RUNS), instead=warehouse.files(gold.RUNS))
    warehouse.commit([gold.RUNS])


def same_id_again(path: Path) -> None:
    """Have a later run bear the id of the one that the checkpoint names."""
    warehouse = warehouse_at(path, "run-3", NOW + dt.timedelta(days=9))
    publish(warehouse, [DAYS[3]])


def same_id_before(path: Path) -> None:
    """Put another run with that id before it."""
    warehouse, rows = rows_of_ledger(path)
    other = {**rows[3], "finished_time": rows[0]["finished_time"] + dt.timedelta(microseconds=1), "report": "{}"}
    rechained(warehouse, [*rows, other])


def forget_coverage(path: Path) -> None:
    """Have a later run, which changes no file, say of a published day that nothing is recorded of it."""
    warehouse = later(path)
    publish(warehouse, [DAY])


def pin_older_versions(path: Path) -> None:
    """Have a later run pin what an earlier one had."""
    warehouse, rows = rows_of_ledger(path)
    other = {**rows[2], "run_id": "run-9", "finished_time": NOW + dt.timedelta(days=9), "files": [], "days": []}
    now = {(of["table"], of["path"]) for of in rows[3]["files"]}
    rechained(warehouse, [*rows, {**other, "gone": [{"table": table, "path": of} for table, of in sorted(now)]}])


def another_column_of_that_name(path: Path) -> None:
    """Add a column STATUS to a file of the ledger: Arrow reads the other one, DuckDB the first."""
    _ledger_file(path, lambda rows: rows.add_column(0, "STATUS", pa.array(["refused"] * rows.num_rows)))


def false_footer_of_ledger(path: Path) -> None:
    """Have the footer of a file of the ledger say that its runs are others: readers who look for one leave it out."""

    def rewritten(file: Path) -> None:
        data = file.read_bytes()
        size = int.from_bytes(data[-8:-4], "little") + 8
        file.write_bytes(data[:-size] + data[-size:].replace(b"run-1", b"run-0"))

    _ledger_file(path, lambda rows: rows, rewritten)


def _ledger_file(
    path: Path, change: Callable[[pa.Table], pa.Table], after: Callable[[Path], None] = lambda _: None
) -> None:
    warehouse = later(path)
    folder = Path(table_path(str(path), gold.RUNS))
    (file,) = (of for of in warehouse.files(gold.RUNS) if of.path.startswith("run-1-"))
    pq.write_table(change(pq.ParquetFile(folder / file.path).read()), folder / "other.parquet", store_schema=False)
    after(folder / "other.parquet")

    def named(action: Json) -> None:
        if action.get("add", {}).get("path") == file.path:
            action["add"] |= {"path": "other.parquet", "size": (folder / "other.parquet").stat().st_size}

    in_log(path, gold.RUNS, named, 1)


def false_statistics_of_ledger(path: Path) -> None:
    """Have the ledger's log say that a file has other runs than it has."""
    change = lambda add: add.update(stats=add["stats"].replace("run-1", "run-0"))  # noqa: E731
    in_log(path, gold.RUNS, of_add(change), 1)


def another_schema_of_ledger(path: Path) -> None:
    """Call a column of the ledger otherwise, in its log."""
    in_log(path, gold.RUNS, _renamed("gate"), 0)


def _renamed(name: str) -> Callable[[Json], object]:
    def change(action: Json) -> None:
        if said := action.get("metaData"):
            said["schemaString"] = said["schemaString"].replace(f'"name":"{name}"', f'"name":"{name}_"')

    return change


def another_note(path: Path) -> None:
    """Have the note beside the tables say another hash."""
    note = path / LAST_RUN
    note.write_text(json.dumps({**json.loads(note.read_text("utf-8")), "sha256": "1" * 64}), "utf-8")


# -- files and logs --------------------------------------------------------------------------------------------------------


def swap_two_files(path: Path) -> None:
    """Let two runs' files of a table have each other's bytes."""
    one, two = sorted(Path(table_path(str(path), EXPIRED)).rglob("*.parquet"))[1:3]
    one.rename(path / "x")
    two.rename(one)
    (path / "x").rename(two)


def other_order(path: Path) -> None:
    """Put the same rows into a file in another order."""
    warehouse = later(path)
    file = warehouse.published_files(EXPIRED)[0]
    rows = read_files(str(path), EXPIRED, [file])
    other = write(warehouse, EXPIRED, file.day, *reversed(rows.drop_columns("day").to_pylist()))
    folder = Path(table_path(str(path), EXPIRED))
    (folder / other.path).replace(folder / file.path)


def other_day_in_log(path: Path) -> None:
    """Change values of a partition in the log only."""
    in_log(path, EXPIRED, of_add(lambda add: add["partitionValues"].update(day=str(DAYS[3]))))


def other_schema_in_log(path: Path) -> None:
    """Call a column of a table otherwise in the log only."""
    in_log(path, TOPICS, _renamed("read_queue_nums"), 0)


def column_mapping(path: Path) -> None:
    """Have a table's columns mapped to others, in a commit that is not ours."""
    said = delta_log.Version(str(path), TOPICS, 0).delta.metadata()
    schema = DeltaTable(table_path(str(path), TOPICS)).schema().to_json()
    meta = {"id": str(said.id), "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    more = {"partitionColumns": ["closed_month"], "configuration": {"delta.columnMapping.mode": "name"}}
    features = {"minReaderVersion": 2, "minWriterVersion": 5}
    added_commit(path, TOPICS, {"protocol": features}, {"metaData": {**meta, **more}})


def add_a_file(path: Path) -> None:
    """Name one more file in a commit that was published."""
    warehouse = later(path)
    other = write(warehouse, EXPIRED, DAY, removal("forged"))
    log = Path(table_path(str(path), EXPIRED), "_delta_log", f"{3:020d}.json")
    add = {"path": other.path, "partitionValues": {"day": str(DAY)}, "size": other.size, "stats": other.stats}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"add": {**add, "modificationTime": 1, "dataChange": True}}) + "\n")


def deletion_vector(path: Path) -> None:
    """Say of a published file that rows of it are deleted."""
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    in_log(path, EXPIRED, of_add(lambda add: add.update(deletionVector=vector)))


def statistics_in_checkpoint(path: Path) -> None:
    """Have a checkpoint of the log, which nobody needs, say that a file has no such topic: readers of Delta leave it out."""
    change = lambda add: add.update(stats=add["stats"].replace("T3", "X3").replace("U3", "X4"))  # noqa: E731
    forged_checkpoint(path, TOPICS, 3, of_add(change))


def partition_in_checkpoint(path: Path) -> None:
    """Have a checkpoint say that a month's intervals closed in another month."""
    change = lambda add: add.update(partitionValues=[("closed_month", "2026-10")])  # noqa: E731
    forged_checkpoint(path, TOPICS, 3, of_add(change))


def schema_in_checkpoint(path: Path) -> None:
    """Have a checkpoint call a column otherwise."""
    forged_checkpoint(path, TOPICS, 3, lambda row: _renamed("read_queue_nums")(row) and None)


def earlier_run_in_checkpoint(path: Path) -> None:
    """Have a checkpoint of a version that only an earlier run has pinned lack a file: so it was known then."""
    DeltaTable(table_path(str(path), TOPICS), version=3).create_checkpoint()
    forged_checkpoint(path, TOPICS, 1, lambda row: not (row.get("add") and "run-0" in row["add"]["path"]))


def vector_in_checkpoint(path: Path) -> None:
    """Have a checkpoint say that rows of a file are deleted."""
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    forged_checkpoint(path, EXPIRED, 3, of_add(lambda add: add.update(deletionVector=vector)))


def only_a_checkpoint(path: Path) -> None:
    """Delete the log up to a forged checkpoint, as if maintenance had."""
    statistics_in_checkpoint(path)
    for log in Path(table_path(str(path), TOPICS), "_delta_log").glob("*.json"):
        if log.name < f"{3:020d}":
            log.unlink()
    warehouse = later(path)
    ledger = delta_log.Version(str(path), gold.RUNS, delta_log.head_of(str(path), gold.RUNS))
    delta_log.set_properties(ledger, {OLDEST: json.dumps({TOPICS.name: 3})}, warehouse.run_id)


def schema_in_checksum(path: Path) -> None:
    """Write a version checksum, of which Spark takes the columns, that calls one otherwise."""
    text = next(Path(table_path(str(path), TOPICS), "_delta_log").glob("*0.json")).read_text("utf-8")
    said = next(json.loads(line)["metaData"] for line in text.splitlines() if "metaData" in json.loads(line))
    action = {"metaData": said}
    _renamed("read_queue_nums")(action)
    file = Path(table_path(str(path), TOPICS), "_delta_log", f"{3:020d}.crc")
    file.write_text(json.dumps({"tableSizeBytes": 1, "numFiles": 4, "metadata": action["metaData"]}), "utf-8")


def compacted_log(path: Path) -> None:
    """Write a compacted log, which newer readers read in the place of commits, without a file."""
    log = Path(table_path(str(path), EXPIRED), "_delta_log")
    (log / f"{1:020d}.{2:020d}.compacted.json").write_bytes((log / f"{1:020d}.json").read_bytes())


def another_kind_of_checkpoint(path: Path) -> None:
    """Write a checkpoint in parts, which delta-rs reads as well, that lacks a file."""
    statistics_in_checkpoint(path)
    log = Path(table_path(str(path), TOPICS), "_delta_log")
    (log / f"{3:020d}.checkpoint.parquet").rename(log / f"{3:020d}.checkpoint.{1:010d}.{1:010d}.parquet")
    last = {"version": 3, "size": 6, "parts": 1}
    (log / "_last_checkpoint").write_text(json.dumps(last), "utf-8")


# -- behind what is published, in files or runs that look as ours do -------------------------------------------------------------


def other_rows_same_commit_kind(path: Path) -> None:
    """Drop a row by a commit that says that it changes none."""
    warehouse = later(path)
    file = warehouse.published_files(EXPIRED)[0]
    instead(path, EXPIRED, file, write(warehouse, EXPIRED, file.day, removal("broker-1")))


def what_no_digest_has(path: Path) -> None:
    """Have heartbeats come from another capture, by a commit that says that it changes no row: their digest is the same."""
    warehouse = later(path)
    file = warehouse.published_files(HEARTBEATS)[0]
    rows = read_files(str(path), HEARTBEATS, [file])
    other = rows.set_column(
        rows.schema.get_field_index("source_file"), rows.schema.field("source_file"), pa.array(["x"] * rows.num_rows)
    )
    instead(path, HEARTBEATS, file, write_file(other, str(path), HEARTBEATS, file.day, "run-9"))


def another_day(path: Path) -> None:
    """Have a later run move a file to another day: the bytes are the same."""
    warehouse = later(path)
    file = next(of for of in warehouse.published_files(EXPIRED) if of.day == DAYS[1])
    folder = Path(table_path(str(path), EXPIRED))
    other = file._replace(path=file.path.replace(str(DAYS[1]), str(DAYS[3])), day=DAYS[3])
    (folder / other.path).parent.mkdir()
    shutil.copy(folder / file.path, folder / other.path)
    warehouse.change(EXPIRED, [other], [file])
    warehouse.commit()
    publish(warehouse, [DAYS[1], DAYS[3]])


def rows_twice(path: Path) -> None:
    """Have a later run add a published file a second time."""
    warehouse = later(path)
    file = next(of for of in warehouse.published_files(TOPICS) if "run-1" in of.path)
    folder = Path(table_path(str(path), TOPICS))
    other = file._replace(path=file.path.replace("run-1", "run-8"))
    shutil.copy(folder / file.path, folder / other.path)
    warehouse.change(TOPICS, [other])
    warehouse.commit()
    publish(warehouse, [DAYS[1], DAYS[3]])


def more_rows(path: Path) -> None:
    """Have a later run add rows to a published one."""
    warehouse = later(path)
    warehouse.change(EXPIRED, [write(warehouse, EXPIRED, DAY, removal("forged"))])
    warehouse.commit()
    publish(warehouse, [DAY, DAYS[3]])


def more_intervals(path: Path) -> None:
    """Have a later run add an interval that had closed before the checkpoint."""
    warehouse = later(path)
    closed_at = dt.datetime.combine(DAY, dt.time(7), dt.timezone.utc)
    row = {"namesrv_id": "n", "topic": "X", "broker_name": "b", "valid_from": closed_at, "valid_to": closed_at}
    rows = table_of([row], TOPICS)
    warehouse.change(TOPICS, [write_file(rows, str(path), TOPICS, DAY, "run-9")])
    warehouse.commit()
    publish(warehouse, [DAY, DAYS[3]])


def into_another_table(path: Path) -> None:
    """Have a later run leave out a file, of which the chain names the piece as one of another table."""
    warehouse = later(path)
    file = next(of for of in warehouse.published_files(EXPIRED) if of.day == DAYS[1])
    (piece,) = {of.pieces for (_, of_path), of in warehouse.chain().files().items() if of_path == file.path}
    warehouse.change(EXPIRED, (), [file])
    other = write(warehouse, gold.ROUTE_CHANGES, DAYS[3], {"namesrv_id": ONE, "topic": "x"})
    warehouse.change(gold.ROUTE_CHANGES, [other])
    warehouse._pieces[gold.ROUTE_CHANGES.name, other.path] = piece
    warehouse.commit()
    publish(warehouse, [DAYS[1], DAYS[3]])


def more_of_an_earlier_run(path: Path) -> None:
    """Have a later run add a file that an earlier one has read, as it says."""
    warehouse = later(path)
    source = {"content_sha256": "forged", "ingest_run": "run-1", "frames": 1, "days": [DAYS[1]]}
    warehouse.change(bronze.SOURCES, [write(warehouse, bronze.SOURCES, None, source)])
    warehouse.commit()
    publish(warehouse, [DAYS[3]])


def compacted_forged(path: Path) -> None:
    """Forge a row in a file that maintenance has put together, and its name, and the commit that names it."""
    maintain(warehouse_at(path, "care", NOW + dt.timedelta(days=500)), retain_days=0)
    (file,) = (of for of in later(path).files(TOPICS) if "compacted" in of.path)
    rows = read_files(str(path), TOPICS, [file]).to_pylist()
    rows[1]["topic"] = "forged"
    other = write_file(table_of(rows, TOPICS), str(path), TOPICS, DAY, "compacted-care", [2] * (len(rows) // 2))
    change = lambda add: add.update(path=other.path, size=other.size, stats=other.stats)  # noqa: E731
    logs = sorted(Path(table_path(str(path), TOPICS), "_delta_log").glob("*.json"))
    (number,) = (of for of, log in enumerate(logs) if file.path in log.read_text("utf-8"))
    in_log(path, TOPICS, of_add(change), number)


def another_view(path: Path) -> None:
    """Have a view of `history.duckdb` leave a broker out."""
    vars(warehouse := later(path)).pop("write_history")
    warehouse.write_history()
    assert warehouse.is_history_ours() is True
    with duckdb.connect(str(path / HISTORY)) as connection:
        shown = "SELECT * FROM files.expired_brokers WHERE broker_name <> 'broker-1'"
        connection.execute(f"CREATE OR REPLACE TEMPORARY MACRO warehouse() AS '{path}/'")
        connection.execute(f"CREATE OR REPLACE VIEW expired_brokers AS {shown}")


ATTACKS: dict[Callable[[Path], None], str] = {
    drop_a_run: "runs: .* was rewritten",
    swap_two_runs: "runs: .* was rewritten",
    say_another_previous: "run-2 does not follow",
    same_id_again: "run-3",
    same_id_before: "run-3",
    forget_coverage: f"run-9 .*{DAY}",
    pin_older_versions: "expired_brokers",
    another_column_of_that_name: "gold/runs/other.parquet",
    false_footer_of_ledger: "gold/runs/other.parquet",
    false_statistics_of_ledger: "runs: the log .* describes run-1-",
    another_schema_of_ledger: "runs: .*columns",
    another_note: "gold/runs",
    swap_two_files: "expired_brokers",
    other_order: "expired_brokers",
    other_day_in_log: "expired_brokers",
    other_schema_in_log: "topic_queue_history",
    column_mapping: "topic_queue_history: .*columnMapping",
    add_a_file: "expired_brokers",
    deletion_vector: "expired_brokers",
    statistics_in_checkpoint: "topic_queue_history: .*checkpoint",
    partition_in_checkpoint: "topic_queue_history: .*checkpoint",
    schema_in_checkpoint: "topic_queue_history: .*checkpoint",
    earlier_run_in_checkpoint: "topic_queue_history: .*checkpoint",
    vector_in_checkpoint: "expired_brokers: .*checkpoint",
    only_a_checkpoint: "topic_queue_history: .*checkpoint",
    schema_in_checksum: "topic_queue_history: .*crc",
    compacted_log: "expired_brokers: .*compacted.json",
    another_kind_of_checkpoint: "topic_queue_history: .*checkpoint",
    other_rows_same_commit_kind: "expired_brokers",
    what_no_digest_has: "heartbeats",
    another_day: f"expired_brokers, day={DAYS[1]}",
    rows_twice: "topic_queue_history",
    more_rows: f"expired_brokers, day={DAY}",
    more_intervals: "topic_queue_history",
    into_another_table: f"expired_brokers, day={DAYS[1]}",
    more_of_an_earlier_run: "sources",
    compacted_forged: "topic_queue_history",
    another_view: "history.duckdb",
}
"""What is done, and a pattern of the sentence that tells of it."""

"""Rewrites of what was published by somebody who may write everything and has this software: a checkpoint shows each."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from jobs.errors import JobError
from jobs.store.check import check
from jobs.store.files import DataFile, read_files, write_file
from jobs.store.ledger import FIRST, Chain, Files, link_of, root_of_files, texts_of
from jobs.store.maintain import maintain
from jobs.store.places import table_path
from jobs.store.published import LAST_RUN, Noted
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import table_of
from schemas import bronze, gold
from schemas.table import Table
from tests.store.tiny import DAY, EXPIRED, HEARTBEATS, NOW, beat, ingest, linked, publish, put, removal, warehouse_at

DAYS = [DAY + dt.timedelta(days=number) for number in range(4)]
TABLES = (EXPIRED, gold.TOPIC_QUEUE_HISTORY, HEARTBEATS, bronze.SOURCES)


def publish_night(path: Path, number: int, day: dt.date) -> None:
    """Publish a night with a row in each of `TABLES`."""
    warehouse = warehouse_at(path, f"run-{number}", NOW + dt.timedelta(days=number))
    warehouse.start_from_published()
    ingest(warehouse, day, beat(number, run=warehouse.run_id))
    put(warehouse, EXPIRED, day, removal(f"broker-{number}"), removal(f"other-{number}"))
    closed_at = dt.datetime.combine(day, dt.time(number + 1), dt.timezone.utc)
    closed = {
        "namesrv_id": "n",
        "topic": f"T{number}",
        "broker_name": "b",
        "valid_from": closed_at,
        "valid_to": closed_at,
    }
    rows = table_of([closed, {**closed, "topic": f"U{number}"}], gold.TOPIC_QUEUE_HISTORY)
    warehouse.change(
        gold.TOPIC_QUEUE_HISTORY, [write_file(rows, warehouse.path, gold.TOPIC_QUEUE_HISTORY, day, warehouse.run_id)]
    )
    warehouse.commit()
    publish(warehouse, [day])


@cache
def published() -> tuple[Path, Noted]:
    """Return a warehouse of four nights, of which the last recomputed the first day, and its checkpoint."""
    path = Path(mkdtemp(prefix="namesrv-rewrites-"))
    for number, day in enumerate([*DAYS[:3], DAYS[0]]):
        publish_night(path, number, day)
    checkpoint = warehouse_at(path).checkpoint()
    assert checkpoint is not None
    assert check(warehouse_at(path), checkpoint).wrong == check(warehouse_at(path), checkpoint).replaced == []
    return path, checkpoint


def rewrite(seed: int, folder: Path) -> str:
    """Rewrite something in a copy of the warehouse, of `KINDS` one after the other; return what `check` says, or nothing."""
    dice, (original, checkpoint) = random.Random(seed), published()
    path = linked(original, folder / f"{seed}")
    try:
        KINDS[seed % len(KINDS)](path, dice)
        checked = check(warehouse_at(path), checkpoint)
    except JobError as error:
        return str(error)
    finally:
        shutil.rmtree(path)
    return "\n".join([*checked.wrong, *checked.replaced])


# -- what they do -----------------------------------------------------------------------------------------------------


def forged(warehouse: Warehouse, table: Table, file: DataFile, dice: random.Random) -> DataFile:
    """Write a file of ours that is another one with another value in it, or without a row, or with one twice."""
    rows = read_files(warehouse.path, table, [file])
    number, texts = dice.randrange(rows.num_rows), ("topic", "broker_name", "source_file", "event_id")
    name = next(name for name in texts if name in table.stored_schema.names)
    values = rows[name].to_pylist()
    values[number] = f"{values[number]}x"
    other = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array(values, pa.string()))
    kept = [other, rows.take([*range(rows.num_rows), number])]
    kept += [rows.filter(pa.array([at != number for at in range(rows.num_rows)]))] if rows.num_rows > 1 else []
    day = DAY if table.has_intervals else file.day
    return write_file(dice.choice(kept), warehouse.path, table, day, warehouse.run_id)


def some_file(path: Path, dice: random.Random, tables: tuple[Table, ...] = TABLES) -> tuple[Warehouse, Table, DataFile]:
    warehouse, table = warehouse_at(path, "run-9", NOW), dice.choice(tables)
    return warehouse, table, dice.choice(warehouse.published_files(table))


def in_place(path: Path, dice: random.Random) -> None:
    """Put other rows into a data file, or other bytes, or delete it."""
    warehouse, table, file = some_file(path, dice)
    where, other = (Path(table_path(str(path), table), of.path) for of in (file, forged(warehouse, table, file, dice)))
    how = dice.randrange(3)
    if how == 0:
        other.replace(where)
    elif how == 1:
        data = bytearray(where.read_bytes())
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        where.unlink()  # it is a link
        where.write_bytes(data)
    else:
        where.unlink()


def in_the_log(path: Path, dice: random.Random) -> None:
    """Have a commit of a Delta log name a forged file, name one less, or say something else of a file."""
    warehouse, table, _ = some_file(path, dice)
    log = dice.choice(sorted(Path(table_path(str(path), table), "_delta_log").glob("*.json")))
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    added = [action["add"] for action in actions if "add" in action]
    how = dice.randrange(4) if added else 3
    if how == 0:
        add = dice.choice(added)
        file = {of.path: of for of in _ever(warehouse, table)}[add["path"]]
        other = forged(warehouse, table, file, dice)
        add |= {"path": other.path, "size": other.size, "stats": other.stats}
    elif how == 1:
        gone = dice.choice(added)
        actions = [action for action in actions if action.get("add") is not gone]
    elif how == 2:
        add = dice.choice(added)
        add["stats"] = add["stats"].replace("2026", "2025").replace("10.0.0.1", "10.0.0.2").replace('"n"', '"m"') + " "
    else:
        actions[0] = {**actions[0], "commitInfo": {"userMetadata": "somebody else"}}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


def _ever(warehouse: Warehouse, table: Table) -> list[DataFile]:
    versions = range(warehouse._base(table) + 1)
    return [file for number in versions for file in warehouse._files_at(table, number, None)]


def rechained(warehouse: Warehouse, rows: list[dict[str, Any]]) -> None:
    """Write the ledger anew with these rows, each with the hashes that it must have, and note the last one."""
    previous, files = FIRST, Files()
    for row in sorted(rows, key=lambda row: (row["finished_time"], row["run_id"])):
        row["previous_sha256"] = previous
        made = Chain.__new__(Chain)
        made._links, made._runs = [None], table_of([row], gold.RUNS)  # type: ignore[list-item]
        for _, added, gone in made.changes():
            files = {key: entry for key, entry in files.items() if key not in gone}
            files |= {(entry.table, entry.path): entry for entry in added}
        row["files_root"] = root_of_files(files)
        (text,) = texts_of(table_of([row], gold.RUNS))
        previous = link_of(previous, row["files_root"], text)
    warehouse.write(gold.RUNS, table_of(rows, gold.RUNS), instead=warehouse.files(gold.RUNS))
    warehouse.commit([gold.RUNS])
    Path(warehouse.path, LAST_RUN).unlink()
    warehouse_at(Path(warehouse.path), "run-10", NOW).note_last()


def in_the_ledger(path: Path, dice: random.Random) -> None:
    """Change what a row of the ledger says, or leave rows out, with or without hashes that agree, and the note beside it."""
    warehouse = warehouse_at(path, "run-9", NOW)
    rows = warehouse.rows(gold.RUNS).to_pylist()
    rows.sort(key=lambda row: row["finished_time"])
    row, how = dice.choice(rows), dice.randrange(6)
    if how == 0:
        row["report"] = '{"x": 1}'
    elif how == 1:
        row["code_version"] += "1"
    elif how == 2:
        row["outputs"] = row["outputs"][1:]
    elif how == 3:
        row["days"] = [*row["days"], DAYS[3]]
    elif how == 4:
        row["finished_time"] -= dt.timedelta(microseconds=1)
    else:
        rows.remove(row)
    if dice.random() < 0.7:
        rechained(warehouse, rows)
    else:
        warehouse.write(gold.RUNS, table_of(rows, gold.RUNS), instead=warehouse.files(gold.RUNS))
        warehouse.commit([gold.RUNS])


def everywhere(path: Path, dice: random.Random) -> None:
    """Forge a file, have the log and the ledger name it, and make all hashes anew: nothing in the warehouse contradicts it."""
    warehouse, table, file = some_file(path, dice)
    other = forged(warehouse, table, file, dice)
    for log in Path(table_path(str(path), table), "_delta_log").glob("*.json"):
        text = log.read_text(encoding="utf-8")
        if file.path in text:
            actions = [json.loads(line) for line in text.splitlines()]
            for add in (action["add"] for action in actions if action.get("add", {}).get("path") == file.path):
                add |= {"path": other.path, "size": other.size, "stats": other.stats}
            log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    opened = warehouse_at(path, "run-9", NOW)
    rows = opened.rows(gold.RUNS).to_pylist()
    for row in rows:
        for of in row["files"]:
            if of["path"] == file.path:
                of |= {"path": other.path, "sha256": other.path[-len("0" * 64 + ".zstd.parquet") :][:64]}
                of["pieces"] = [{"rows": count, "root": root} for count, root in other.pieces]
    rechained(opened, rows)


def by_a_run(path: Path, dice: random.Random) -> None:
    """Have this software publish other rows in the place of those of a day: the chain goes on, and tells it."""
    warehouse, table, file = some_file(path, dice, (EXPIRED, gold.TOPIC_QUEUE_HISTORY, HEARTBEATS))
    warehouse.change(table, [forged(warehouse, table, file, dice)], [file])
    warehouse.commit()
    publish(warehouse, [file.day or DAY])


def by_compaction(path: Path, dice: random.Random) -> None:
    """Forge rows in a file that maintenance puts together, of which the next run hands on that they are the same."""
    warehouse = warehouse_at(path, "run-9", NOW + dt.timedelta(days=500))
    maintain(warehouse, retain_days=0)
    table = gold.TOPIC_QUEUE_HISTORY
    (file,) = (of for of in warehouse_at(path).files(table) if "compacted" in of.path)
    rows = read_files(str(path), table, [file])
    values = [f"{value}x" if number == 3 else value for number, value in enumerate(rows["topic"].to_pylist())]
    other = rows.set_column(rows.schema.get_field_index("topic"), rows.schema.field("topic"), pa.array(values))
    joins = [2] * (rows.num_rows // 2)
    again = warehouse_at(path, "run-10", NOW + dt.timedelta(days=501))
    made = write_file(other, str(path), table, DAY, "compacted-run-9", joins)
    again.change(table, [made], [file])
    if dice.random() < 0.5:  # ... and lie about what is in it
        known = {
            piece for entry in again.chain().files().values() for piece in entry.pieces if entry.table == table.name
        }
        again._pieces[table.name, made.path] = tuple(sorted(known))
    again.commit()
    publish(again, DAYS[:3])


KINDS: tuple[Callable[[Path, random.Random], None], ...] = (
    in_place,
    in_the_log,
    in_the_ledger,
    everywhere,
    by_a_run,
    by_compaction,
)

"""Rows of readers on their way into files of typed Arrow, some at a time, by whoever reads: the driver, or a task.

Texts are kept once among many rows (dictionaries), from the reader to the data file: most say the same again and again. What equal
frames and lines share becomes a column once, and is then taken by number.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.store.places import unnamed
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.arrow.rows import derived_of, plain, with_columns
from namesrv_day.arrow.sql import ask
from namesrv_wire.rows import REVOKED, AnyRow, FrameRow, Values
from schemas import bronze
from schemas.table import STRING, Table, required
from schemas.times import US_PER_DAY, day_of

_REVOKED = Table(
    REVOKED,
    "bronze",
    "one row that later packets have proved wrong",
    (required("table", STRING, "Its table"), required("event_id", STRING, "Its key")),
    key=("table", "event_id"),
)
WRITTEN = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.TOPIC_CONFIGS_TABLE)}
"""The tables whose rows a run collects before it writes them; of each the key is one column."""
STAGED = {**WRITTEN, bronze.QUARANTINE.name: bronze.QUARANTINE, REVOKED: _REVOKED}
_OWN = (pa.field("_n", pa.int64()), pa.field("_frame", pa.int64()), pa.field("_seq_is_given", pa.bool_()))
# What rows on their way may take in memory, about: a dict for each row and each item of a list, and texts as long as frames.
_PENDING_BYTES, _BYTES_PER_DICT, _BYTES_PER_FRAME = 32 << 20, 800, 400
_TEXT = pa.dictionary(pa.int32(), STRING)


class Run(NamedTuple):
    """What rows of a run have in common: the folder of their files, and under which day those without a time are filed.

    `namesrv_of`: the name servers whose addresses are other than their ids; rows leave with these ids.
    """

    folder: str
    run_id: str
    run_day: dt.date
    namesrv_of: Mapping[str, str]


class Collector:
    """Collects rows by table in files, whose names begin with `name`; each has a number, from 1."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self._name = run, name
        self.count = 0
        """How many rows there are."""
        self.tables: set[str] = set()
        """The names of the tables of which there are rows."""
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: on no other day are they stored already."""
        self._pending: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        # Rows that frames or lines say, each with its number and its frame.
        self._frames: defaultdict[str, list[tuple[FrameRow, int, int | None]]] = defaultdict(list)
        self._pending_bytes = 0
        self._written: dict[str, tuple[str, Any, pa.ipc.RecordBatchStreamWriter]] = {}

    def close(self) -> None:
        """Let go of all files."""
        for name in list(self._written):
            self._closed(name)

    def reserve(self, count: int) -> int:
        """Return the first of so many numbers for rows that are added by it."""
        self.count += count
        return self.count - count + 1

    def add(self, found: AnyRow, *, frame: int | None, number: int | None = None) -> None:
        """Add one row; `ingest_run` and `day` are filled in.

        `frame`: with its key it tells for which frame or line the row stands: equal ones are one. None: for none. `number`: one
        that was reserved.
        """
        values = found.values
        received_us = values.get("event_time")
        at_us = values.get("effect_time", received_us)
        day = day_of(at_us) if isinstance(at_us, int) else self.run.run_day
        self.days.update((day, day_of(received_us) if isinstance(received_us, int) else day))
        own = {
            "_n": self.reserve(1) if number is None else number,
            "_frame": frame,
            "_seq_is_given": found.seq_is_given,
        }
        self.tables.add(found.table)
        self._pending[found.table].append({**values, "ingest_run": self.run.run_id, "day": day, **own})
        self._note_pending(
            _BYTES_PER_DICT
            + sum(
                len(value) if isinstance(value, str) else _BYTES_PER_DICT * len(value)
                for value in values.values()
                if isinstance(value, (str, list))
            )
        )

    def add_frames(self, rows: Sequence[FrameRow], frames: Iterable[int | None]) -> None:
        """Add rows that frames or lines say, as `add` adds one with its `frame`."""
        first = self.reserve(len(rows))
        for number, (row, frame) in enumerate(zip(rows, frames, strict=True), first):
            self._frames[row.table].append((row, number, frame))
        self.tables.update(self._frames)
        days = {row.event_us // US_PER_DAY for row in rows} | {row.effect_us // US_PER_DAY for row in rows}
        self.days.update(day_of(day * US_PER_DAY) for day in days)
        # Equal answers are one object.
        answers = {id(row.answered): row.answered for row in rows}.values()
        texts = (text for answered in answers for text in answered.values() if isinstance(text, str))
        self._note_pending(len(rows) * _BYTES_PER_FRAME + sum(map(len, texts)))

    def _note_pending(self, size: int) -> None:
        self._pending_bytes += size
        if self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        for name, pending in self._pending.items():
            self._write(name, pa.RecordBatch.from_pylist(pending, staged_schema(STAGED[name])))
        for name, found in self._frames.items():
            rows, numbers, frames = zip(*found, strict=True)
            other = {"ingest_run": self.run.run_id, "_n": numbers, "_frame": frames}
            self._write(name, columns_of(rows, STAGED[name], **other))
        self._pending.clear()
        self._frames.clear()
        self._pending_bytes = 0

    def _write(self, name: str, rows: pa.RecordBatch) -> None:
        rows = as_staged(rows, self.run.namesrv_of)
        if name not in self._written:
            path, stream = unnamed(self.run.folder, f"{self._name}{name}")
            self._written[name] = path, stream, pa.ipc.new_stream(stream, rows.schema)
        self._written[name][2].write_batch(rows)

    def end(self, name: str) -> str | None:
        """End the file of a table; return it, or None if there is none."""
        self._flush()
        return self._closed(name) if name in self._written else None

    def _closed(self, name: str) -> str:
        path, stream, writer = self._written.pop(name)
        writer.close()
        stream.close()
        return path


def staged_schema(table: Table) -> pa.Schema:
    """Return the columns of rows of `table` on their way: texts but keys as dictionaries; last what tells copies apart."""
    return pa.schema(
        [
            column.with_type(_TEXT) if column.type == STRING and column.name not in table.key else column
            for column in plain(table.schema)
        ]
        + list(_OWN)
    )


def as_staged(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `staged_schema` with what follows from others.

    That is whose they are (`namesrv_addr`, where it is not said, and its name server), and of answers the columns of which their
    positions are made again.
    """
    if "namesrv_addr" in rows.schema.names:
        names = rows["namesrv_id"].cast(STRING)
        addresses = pc.coalesce(rows["namesrv_addr"].cast(STRING), names)
        if namesrv_of:
            at = pc.index_in(addresses, value_set=pa.array(list(namesrv_of), STRING))
            names = pc.coalesce(pc.take(pa.array(list(namesrv_of.values()), STRING), at), names)
        rows = with_columns(rows, namesrv_id=names, namesrv_addr=addresses)
    for rest, position, time in (("seq_rest", "seq", "effect_time"), ("request_rest", "request_seq", "event_time")):
        if rest in rows.schema.names:
            whole = pc.multiply(rows[time].cast(pa.int64()), NS_PER_US)
            rows = with_columns(rows, **{rest: pc.subtract(rows[position], whole)})
    return rows


def columns_of(rows: Sequence[FrameRow], table: Table, **other: Any) -> pa.RecordBatch:
    """Return rows of one table as columns of `staged_schema`; `other`: further columns, or the one value of one."""
    columns = zip(*rows, strict=True)
    _, namesrv, seq, ids, received, effect, channel, proxied, files, offsets, said, answered, asked, nth, given = (
        columns
    )
    at_us = np.array(effect, np.int64)
    own = {
        "namesrv_id": namesrv,
        "seq": np.array(seq, np.int64),
        "event_id": ids,
        "event_time": np.array(received, np.int64),
        "effect_time": at_us,
        "channel_id": channel,
        "proxied_addr": proxied,
        "source_file": files,
        "source_offset": np.array(offsets, np.int64),
        "request_seq": asked,
        "nth": nth,
        "stated_id": pa.nulls(len(rows), STRING),
        "day": (at_us // US_PER_DAY).astype(np.int32),
        "_seq_is_given": np.array(given, bool),
        **other,
    }
    shared = []
    for values in (answered, said):  # the columns of the answer go before those of the request
        distinct = {id(each): each for each in values}
        numbers = {key: number for number, key in enumerate(distinct)}
        which = np.fromiter((numbers[id(each)] for each in values), np.int32, len(rows))
        shared.append((list(distinct.values()), which))
    found = _batch(table, own, shared, len(rows))
    if "stated_id" not in found.schema.names:
        return found
    following = _timed_ids(found, table)
    ids = pc.coalesce(found["event_id"], following)
    stated = pc.if_else(pc.equal(ids, following), pa.scalar(None, STRING), ids)
    return with_columns(found, event_id=ids, stated_id=stated)


def _batch(
    table: Table, own: Mapping[str, Any], shared: Sequence[tuple[Sequence[Values], NDArray[np.int32]]], size: int
) -> pa.RecordBatch:
    """Return columns of `staged_schema`: `own` ones, and of what rows share distinct values, with the number of each row's."""
    schema, columns = staged_schema(table), []
    names = [frozenset[str]().union(*distinct) for distinct, _ in shared]
    for field in schema:
        values = own.get(field.name)
        of = next((of for of, known in zip(shared, names, strict=True) if field.name in known), None)
        if isinstance(values, str):
            column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([values]))
        elif field.name in own:
            column = values if isinstance(values, pa.Array) else pa.array(values, field.type)
        elif of is None:
            column = pa.nulls(size, field.type)
        else:
            once, which = pa.array([each.get(field.name) for each in of[0]], field.type), pa.array(of[1])
            column = (
                pa.DictionaryArray.from_arrays(once.indices.take(which), once.dictionary)
                if pa.types.is_dictionary(field.type)
                else once.take(which)
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _timed_ids(rows: pa.RecordBatch, table: Table) -> pa.Array:
    """Return the ids that follow from beats and answers (`rows.timed_id`), which state none."""
    met = with_columns(rows, namesrv_addr=rows["namesrv_id"])
    made = ask(f"SELECT {derived_of(table)['event_id']} FROM met", {"met": pa.Table.from_batches([met])})  # noqa: S608
    return pa.concat_arrays(made[0].chunks)

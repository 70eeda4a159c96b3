"""Rows of readers on their way into files of typed Arrow, some at a time, by whoever reads: the driver, or a task.

Texts are kept once among many rows (dictionaries), from the reader to the data file: most say the same again and again.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.columns import columns_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.arrow.rows import plain
from namesrv_wire.rows import REVOKED, AnyRow, FrameRow
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
WRITTEN = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS, bronze.TOPIC_CONFIGS_TABLE)}
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

    folder: Path
    run_id: str
    run_day: dt.date
    namesrv_of: Mapping[str, str]


def staged_schema(table: Table) -> pa.Schema:
    """Return the columns of rows of `table` on their way: texts but keys as dictionaries; last what tells copies apart."""
    return pa.schema(
        [
            column.with_type(_TEXT) if column.type == STRING and column.name not in table.key else column
            for column in plain(table.schema)
        ]
        + list(_OWN)
    )


@dataclass(slots=True)
class _Frames:
    """Rows of one table that frames or lines say, with what `_OWN` adds."""

    rows: list[FrameRow] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    frames: list[int | None] = field(default_factory=list)


class Collector:
    """Collects rows by table in files, whose names begin with `name`; each has a number, from 1."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self._name = run, name
        self._added = 0
        self._pending: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._frames: defaultdict[str, _Frames] = defaultdict(_Frames)
        self._pending_bytes = 0
        self._writers: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
        self.tables: set[str] = set()
        """The names of the tables of which there are rows."""
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: on no other day are they stored already."""

    def close(self) -> None:
        """Let go of all files."""
        for writer in self._writers.values():
            writer.close()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._added

    def reserve(self, count: int) -> int:
        """Return the first of so many numbers for rows that are added by it."""
        first = self._added + 1
        self._added += count
        return first

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
        self._pending_bytes += _BYTES_PER_DICT + sum(
            len(value) if isinstance(value, str) else _BYTES_PER_DICT * len(value)
            for value in values.values()
            if isinstance(value, (str, list))
        )
        if self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def add_frames(self, rows: Sequence[FrameRow], frames: Sequence[int | None]) -> None:
        """Add rows that frames or lines say, as `add` adds one with its `frame`."""
        for number, (row, frame) in enumerate(zip(rows, frames, strict=True), self._added + 1):
            pending = self._frames[row.table]
            pending.rows.append(row)
            pending.numbers.append(number)
            pending.frames.append(frame)
        self._added += len(rows)
        self.tables.update(self._frames)
        days = {row.event_us // US_PER_DAY for row in rows} | {row.effect_us // US_PER_DAY for row in rows}
        self.days.update(day_of(day * US_PER_DAY) for day in days)
        # Equal answers are one object.
        answers = {id(row.answered): row.answered for row in rows}.values()
        texts = (text for answered in answers for text in answered.values() if isinstance(text, str))
        self._pending_bytes += len(rows) * _BYTES_PER_FRAME + sum(map(len, texts))
        if self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        for name, pending in self._pending.items():
            self._write(name, pa.RecordBatch.from_pylist(pending, staged_schema(STAGED[name])))
        for name, found in self._frames.items():
            own = {"_n": found.numbers, "_frame": found.frames}
            table = STAGED[name]
            self._write(name, columns_of(found.rows, table, staged_schema(table), ingest_run=self.run.run_id, **own))
        self._pending.clear()
        self._frames.clear()
        self._pending_bytes = 0

    def _write(self, name: str, rows: pa.RecordBatch) -> None:
        rows = as_staged(rows, self.run.namesrv_of)
        if name not in self._writers:
            self._writers[name] = pa.ipc.new_stream(str(self._path(name)), rows.schema)
        self._writers[name].write_batch(rows)

    def _path(self, name: str) -> Path:
        return self.run.folder / f"{self._name}{name}.arrow"

    def end(self, name: str) -> Path | None:
        """End the file of a table; return it, or None if there is none."""
        self._flush()
        writer = self._writers.pop(name, None)
        if writer is None:
            return None
        writer.close()
        return self._path(name)


def as_staged(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `staged_schema` with what follows from others: whose they are, and what is stored of positions."""
    return _as_stored(named(rows, namesrv_of))


def named(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Add namesrv_addr, and map it to its namesrv_id."""
    if "namesrv_addr" not in rows.schema.names:
        return rows
    names = rows["namesrv_id"].cast(STRING)
    addresses = pc.coalesce(rows["namesrv_addr"].cast(STRING), names)
    if namesrv_of:
        at = pc.index_in(addresses, value_set=pa.array(list(namesrv_of), STRING))
        names = pc.coalesce(pc.take(pa.array(list(namesrv_of.values()), STRING), at), names)
    columns = {
        **dict(zip(rows.schema.names, rows.columns, strict=True)),
        "namesrv_id": names,
        "namesrv_addr": addresses,
    }
    return pa.RecordBatch.from_arrays(
        [column.cast(rows.schema.field(n).type) for n, column in columns.items()], schema=rows.schema
    )


def _as_stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows, of answers with those columns of which their positions are made again."""
    for rest, position, time in (("seq_rest", "seq", "effect_time"), ("request_rest", "request_seq", "event_time")):
        if rest in rows.schema.names:
            whole = pc.multiply(rows[time].cast(pa.int64()), NS_PER_US)
            rows = rows.set_column(rows.schema.get_field_index(rest), rest, pc.subtract(rows[position], whole))
    return rows

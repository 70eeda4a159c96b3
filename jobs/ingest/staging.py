"""Rows on their way from a reader into the tables: typed Arrow in files, so that memory does not grow with the input.

Texts are kept once among many rows (dictionaries), from the reader to the data file: most say the same again and again.
Set logic is done in SQL, and on what is narrow: keys, positions, numbers. Whole rows, of which one may be as long as a frame,
are only ever passed along, some at a time.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.ingest.columns import columns_of
from jobs.store.files import DataFile
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.rows import plain
from namesrv_wire.rows import REVOKED, AnyRow, FrameRow
from schemas import bronze
from schemas.table import STRING, Column, Table
from schemas.times import US_PER_DAY, day_of

_REVOKED = Table(
    REVOKED,
    "bronze",
    "one row that later packets have proved wrong",
    (Column("table", STRING, "Its table", required=True), Column("event_id", STRING, "Its key", required=True)),
    key=("table", "event_id"),
)
WRITTEN = {table.name: table for table in (*bronze.RECORDED_TABLES, bronze.SNAPSHOTS, bronze.TOPIC_CONFIGS_TABLE)}
"""The tables whose rows a run collects before it writes them; of each the key is one column."""
_STAGED = {**WRITTEN, bronze.QUARANTINE.name: bronze.QUARANTINE, REVOKED: _REVOKED}
_OWN = (pa.field("_n", pa.int64()), pa.field("_frame", pa.int64()), pa.field("_seq_is_given", pa.bool_()))
# What rows on their way may take in memory, about: a dict for each row and each item of a list, and texts as long as frames.
_PENDING_BYTES, _BYTES_PER_DICT, _BYTES_PER_FRAME = 32 << 20, 800, 400
_TEXT = pa.dictionary(pa.int32(), STRING)
ROWS_AT_A_TIME = 250_000
"""Rows of stored files, or rows for one, that are in memory together."""
_ROWS_ASKED, _BYTES_ASKED = 65_536, 16 << 20
# What DuckDB needs beyond goes to files.
_MEMORY = "128MB"


@contextmanager
def staging_in(
    folder: Path, run_id: str, run_day: dt.date, namesrv_of: Mapping[str, str] | None = None
) -> Iterator[Staging]:
    """Give a staging area in `folder`, which is removed at the end. Rows without a time are filed under `run_day`.

    `namesrv_of`: the name servers whose addresses are other than their ids; rows leave with these ids.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    staging = Staging(folder, run_id, run_day, namesrv_of or {})
    try:
        yield staging
    finally:
        staging.close()
        shutil.rmtree(folder, ignore_errors=True)


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


class _File(NamedTuple):
    """A file of rows; `number`, `line`: what is added to the numbers of its rows, and of their lines."""

    path: Path
    number: int
    line: int


class Staging:
    """Collects rows by table in files under one folder, and answers SQL about them.

    Whoever fills `moved` (_n, seq, is_taken) gives rows other positions.
    """

    def __init__(self, folder: Path, run_id: str, run_day: dt.date, namesrv_of: Mapping[str, str]) -> None:
        self.folder = folder
        """Where the files are; whoever adds some writes them there."""
        self.namesrv_of = namesrv_of
        self.run_id = run_id
        self._run_day = run_day
        self._added = 0
        self._pending: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._frames: defaultdict[str, _Frames] = defaultdict(_Frames)
        self._pending_bytes = 0
        self._writers: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
        self._files: defaultdict[str, list[_File]] = defaultdict(list)
        self._on_day: dict[str, dt.date | None] = {}
        self._con = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(folder / "spilled")})
        self.ask("SET TimeZone = 'UTC'; CREATE TABLE moved (_n BIGINT, seq BIGINT, is_taken BOOLEAN)")
        self.tables: set[str] = set()
        """The names of the tables of which there are rows."""
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: on no other day are they stored already."""

    def close(self) -> None:
        """Let go of all files."""
        for writer in self._writers.values():
            writer.close()
        self._con.close()

    def reserve(self, count: int) -> int:
        """Return the first of so many numbers for rows that are added by it."""
        first = self._added + 1
        self._added += count
        return first

    def add_files(self, files: Mapping[str, Path], days: Collection[dt.date], number: int, line: int) -> None:
        """Add files of rows by table, as `as_staged` gives them, of which numbers and lines count from `number` and `line`."""
        for name, path in files.items():
            self._files[name].append(_File(path, number, line))
        self.tables.update(files)
        self.days.update(days)

    def add(self, found: AnyRow, *, frame: int | None, number: int | None = None) -> None:
        """Add one row; `ingest_run` and `day` are filled in.

        `frame`: with its key it tells for which frame or line the row stands: equal ones are one. None: for none. `number`: one
        that was reserved.
        """
        values = found.values
        received_us = values.get("event_time")
        at_us = values.get("effect_time", received_us)
        day = day_of(at_us) if isinstance(at_us, int) else self._run_day
        self.days.update((day, day_of(received_us) if isinstance(received_us, int) else day))
        own = {
            "_n": self.reserve(1) if number is None else number,
            "_frame": frame,
            "_seq_is_given": found.seq_is_given,
        }
        self.tables.add(found.table)
        self._pending[found.table].append({**values, "ingest_run": self.run_id, "day": day, **own})
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
            self._write(name, pa.RecordBatch.from_pylist(pending, staged_schema(_STAGED[name])))
        for name, found in self._frames.items():
            own = {"_n": found.numbers, "_frame": found.frames}
            self._write(name, columns_of(found.rows, staged_schema(_STAGED[name]), ingest_run=self.run_id, **own))
        self._pending.clear()
        self._frames.clear()
        self._pending_bytes = 0

    def _write(self, name: str, rows: pa.RecordBatch) -> None:
        rows = as_staged(rows, self.namesrv_of)
        if name not in self._writers:
            file = _File(self.folder / f"{name}.arrow", 0, 0)
            self._files[name].append(file)
            self._writers[name] = pa.ipc.new_stream(str(file.path), rows.schema)
        self._writers[name].write_batch(rows)

    def settle(self, name: str, on_day: dt.date | None = None, *, placed: bool = False) -> None:
        """End the collecting of a table's rows. `kept_<name>` then has its keys and of each the row that was added last.

        That stands for all copies: `_frames` is the number of frames and lines for which they stand. `on_day`: all are of that.
        `placed`: it also has what says where each stands.
        """
        self._on_day[name] = on_day
        self._flush()
        if name in self._writers:
            self._writers.pop(name).close()
        key = ", ".join(f'"{column}"' for column in _STAGED[name].key)
        place = [column for column in ("namesrv_id", "seq", "_seq_is_given") if placed]
        names = staged_schema(_STAGED[name]).names
        of_last = [column for column in place if column in names]
        wanted = [*_STAGED[name].key, "_n", "_frame", *(set(of_last) - {*_STAGED[name].key})]
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(column) for column in wanted])
        said = "*" if "namesrv_id" not in of_last else "* REPLACE (namesrv_id::VARCHAR AS namesrv_id)"
        for number, (path, first, _) in enumerate(self._files[name]):
            moved = (
                f"(SELECT * REPLACE (_n + {first} AS _n, _frame + {first} AS _frame) FROM given)" if first else "given"
            )
            into = "INSERT INTO staged BY NAME" if number else "CREATE OR REPLACE TABLE staged AS"
            with pa.OSFile(str(path)) as file:
                self.ask(f"{into} SELECT {said} FROM {moved}", given=pa.ipc.open_stream(file, options=options))
        [[are_several]] = self.ask(f"SELECT count(*) <> count(DISTINCT hash({key})) FROM staged").to_pydict().values()
        if not are_several:
            self.ask(f"ALTER TABLE staged RENAME TO own_{name}")
            frames = "(_frame IS NOT NULL)::BIGINT AS _frames"
            self.ask(f"CREATE VIEW kept_{name} AS SELECT {', '.join([key, '_n', *of_last])}, {frames} FROM own_{name}")
            return
        is_last = f"JOIN (SELECT _n, {', '.join(of_last)} FROM staged) USING (_n)" if of_last else ""
        self.ask(
            f"""CREATE TABLE kept_{name} AS
            WITH one AS (
              SELECT {key}, max(_n) AS _n, min(_frame) AS low, max(_frame) AS high FROM staged GROUP BY {key}
            ), several AS (
              SELECT {key}, count(DISTINCT _frame) AS _frames
              FROM staged SEMI JOIN (FROM one WHERE low <> high) USING ({key}) GROUP BY {key}
            )
            SELECT {", ".join([key, "_n", *of_last])}, coalesce(_frames, (low IS NOT NULL)::BIGINT) AS _frames
            FROM one LEFT JOIN several USING ({key}) {is_last} ORDER BY _n"""
        )
        self.ask("DROP TABLE staged")

    def rows(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows that are kept, some at a time, with `_n`, `_frames`, `_seq_is_given` and `_seq_is_taken`."""
        day = self._on_day[name]
        for staged in self._staged(name):
            rows, frames = self.of_batch(staged, f"SELECT _n, _frames FROM kept_{name}")
            if not len(rows):
                continue
            rows = rows.drop_columns(["_frame"]).append_column("_frames", pa.array(frames))
            if day is not None:
                rows = _with(rows, "day", pa.repeat(pa.scalar(day), len(rows)))
            yield self._moved(rows)

    def _staged(self, name: str) -> Iterator[pa.Table]:
        """Yield all rows of a table, as many at a time as one question should be about."""
        held: list[pa.Table] = []
        for path, number, line in self._files[name]:
            # Not mapped: what was read of it would stay in memory.
            with pa.OSFile(str(path)) as file:
                for batch in pa.ipc.open_stream(file):
                    rows = pa.Table.from_batches([batch])
                    for column, first in (("_n", number), ("source_offset", line)) if number else ():
                        rows = _with(rows, column, pc.add(rows[column], first))
                    held.append(rows)
                    if sum(map(len, held)) >= _ROWS_ASKED or sum(part.nbytes for part in held) >= _BYTES_ASKED:
                        yield pa.concat_tables(held)
                        held = []
        yield from [pa.concat_tables(held)] if held else []

    def of_batch(self, rows: pa.Table, found: str) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the rows of which the query `found` has the number, and its second column of these."""
        numbers = rows["_n"].to_numpy()
        if not len(numbers):
            return rows, numbers
        is_near = f"SELECT * FROM ({found}) WHERE _n BETWEEN {numbers.min()} AND {numbers.max()} ORDER BY _n"
        near = self.ask(is_near)
        kept, second = near[0].to_numpy(), near[1].to_numpy()
        if len(kept) == len(numbers) and np.array_equal(kept, numbers):
            return rows, second
        at = np.searchsorted(kept, numbers)
        is_kept = kept[np.minimum(at, len(kept) - 1)] == numbers if len(kept) else np.zeros(len(numbers), bool)
        return rows if is_kept.all() else rows.filter(pa.array(is_kept)), second[at[is_kept]]

    def _moved(self, rows: pa.Table) -> pa.Table:
        """Return the rows with the positions that they were given, and `_seq_is_taken`."""
        taken = np.zeros(len(rows), bool)
        moved = self.ask("FROM moved SEMI JOIN rows USING (_n)", rows=rows.select(["_n"])).to_pydict()
        if moved["_n"]:
            seq, numbers = rows["seq"].to_numpy().copy(), rows["_n"].to_numpy()
            order = np.argsort(numbers)
            at = order[np.searchsorted(numbers, moved["_n"], sorter=order)]
            seq[at], taken[at] = moved["seq"], moved["is_taken"]
            rows = _with(rows, "seq", pa.array(seq))
        return rows.append_column("_seq_is_taken", pa.array(taken))

    def ask(self, query: str, **tables: Any) -> pa.Table:
        """Return what `query` gives, if it gives anything; it also reads `tables` by their names."""
        for name, table in tables.items():
            self._con.register(name, table)
        try:
            found = self._con.sql(query)
            return None if found is None else found.to_arrow_table()
        finally:
            for name in tables:
                self._con.unregister(name)


def as_staged(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `staged_schema` with what follows from others: whose they are, and what is stored of positions."""
    return _as_stored(_named(rows, namesrv_of))


def _named(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of an address with it, and with the name server whose it is: readers know addresses alone."""
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


def parts_of(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield stored files, at once as many as have about so many rows as may be in memory together."""
    rows = accumulate(file.rows for file in files)
    for _, part in groupby(zip(rows, files, strict=True), key=lambda pair: pair[0] // ROWS_AT_A_TIME):
        yield [file for _, file in part]


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values) if name in rows.column_names else rows

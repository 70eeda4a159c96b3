"""Staging: rows between a reader and the tables, as typed Arrow in files, so that memory does not grow with the input.

New or changed rows go into the bronze tables, rows that break a rule into quarantine.

SQL does the set logic, on narrow columns: keys, positions, numbers. Whole rows, which may be as long as a frame, are only passed
on, in batches.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby, repeat
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.sources import Ingested
from jobs.store.files import DataFile, read_files, together, write_file
from jobs.store.places import filesystem_of, local_path, unnamed
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.events import NS_PER_US
from namesrv_day.arrow import ask, derived_of, plain, with_columns
from namesrv_day.rules import reasons
from namesrv_wire.errors import FIRST_BYTES, Reason
from namesrv_wire.rows import DECODER_VERSION, REVOKED, AnyRow, FrameRow, Row, Values
from schemas import bronze, times
from schemas.bronze import BROKEN_RULE
from schemas.sql_files import query
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
"""The tables whose rows a run collects before it writes them; the key of each is one column."""
STAGED = {**WRITTEN, bronze.QUARANTINE.name: bronze.QUARANTINE, REVOKED: _REVOKED}
_OWN = (pa.field("_n", pa.int64()), pa.field("_frame", pa.int64()), pa.field("_seq_is_given", pa.bool_()))
# Memory for pending rows, estimated: a dict for each row and each item of a list, and texts as long as frames.
_PENDING_BYTES, _BYTES_PER_DICT, _BYTES_PER_FRAME = 32 << 20, 800, 400
_TEXT = pa.dictionary(pa.int32(), STRING)


class Run(NamedTuple):
    """Facts that the rows of a run share: the folder of their files, and the day for rows without a time.

    `namesrv_of`: name server by address, where the address is not the id; staged rows get these ids.
    """

    folder: str
    run_id: str
    run_day: dt.date
    namesrv_of: Mapping[str, str]


class Collector:
    """Collects rows by table in files, whose names begin with `name`. Each row has a number, from 1."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self._name = run, name
        self.count = 0
        """Number of rows so far."""
        self.tables: set[str] = set()
        """Names of the tables that have rows."""
        self.days: set[dt.date] = set()
        """Days on which rows were received or took effect: stored copies of them can be on no other day."""
        self._pending: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        # Rows of frames or lines, each with its number and its frame.
        self._frames: defaultdict[str, list[tuple[FrameRow, int, int | None]]] = defaultdict(list)
        self._pending_bytes = 0
        self._written: dict[str, tuple[str, Any, pa.ipc.RecordBatchStreamWriter]] = {}

    def close(self) -> None:
        """Close all files."""
        for name in list(self._written):
            self._closed(name)

    def reserve(self, count: int) -> int:
        """Reserve `count` row numbers for the caller; return the first."""
        self.count += count
        return self.count - count + 1

    def add(
        self, rows: Sequence[AnyRow], frames: Iterable[int | None], numbers: Iterable[int | None] | None = None
    ) -> None:
        """Add rows; `ingest_run` and `day` are filled in.

        `frames`: the frame or line of each; rows with the same frame and key count as one. None: the row has none. `numbers`:
        reserved row numbers; None: the row gets the next one.
        """
        events, size = list[FrameRow](), 0
        for row, frame, reserved in zip(rows, frames, repeat(None) if numbers is None else numbers, strict=False):
            number = self.reserve(1) if reserved is None else reserved
            self.tables.add(row.table)
            if isinstance(row, FrameRow):
                events.append(row)
                self._frames[row.table].append((row, number, frame))
                continue
            at_us = map(row.values.get, ("effect_time", "event_time"))
            days = [day_of(us) for us in at_us if isinstance(us, int)] or [self.run.run_day]
            self.days.update(days)
            own = {"_n": number, "_frame": frame, "_seq_is_given": row.seq_is_given}
            self._pending[row.table].append({**row.values, "ingest_run": self.run.run_id, "day": days[0], **own})
            texts = (of for of in row.values.values() if isinstance(of, (str, list)))
            size += sum((1 if isinstance(of, str) else _BYTES_PER_DICT) * len(of) for of in texts) + _BYTES_PER_DICT
        self.days |= {day_of(at * US_PER_DAY) for at in {us // US_PER_DAY for row in events for us in row[4:6]}}
        # Equal answers are one object.
        answers = {id(row.answered): row.answered for row in events}.values()
        texts = (text for answered in answers for text in answered.values() if isinstance(text, str))
        self._pending_bytes += size + len(events) * _BYTES_PER_FRAME + sum(map(len, texts))
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
        """Close the file of a table and return its path; None if it has no rows."""
        self._flush()
        return self._closed(name) if name in self._written else None

    def _closed(self, name: str) -> str:
        path, stream, writer = self._written.pop(name)
        writer.close()
        stream.close()
        return path


def staged_schema(table: Table) -> pa.Schema:
    """Return the schema of staged rows of `table`: texts except keys as dictionaries; the last columns identify copies."""
    return pa.schema(
        [
            column.with_type(_TEXT) if column.type == STRING and column.name not in table.key else column
            for column in plain(table.schema)
        ]
        + list(_OWN)
    )


def as_staged(rows: pa.RecordBatch, namesrv_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows of `staged_schema` with their derived columns filled in.

    These are the name server's address (`namesrv_addr`, where not stated) and id, and for answers the columns from which their
    positions are computed again.
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
    """Return rows of one table as a batch of `staged_schema`; `other`: further columns, or a single value for a column."""
    columns = zip(*rows, strict=True)
    _, namesrv, seq, ids, received, effect, channel, proxied, files, offsets, requested, answered, asked, nth, given = (
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
    shared = []  # equal ones are one object: distinct ones with their names, and an index for each row
    for values in (answered, requested):  # the columns of the answer go before those of the request
        distinct = {id(each): each for each in values}
        numbers = {key: number for number, key in enumerate(distinct)}
        which = np.fromiter((numbers[id(each)] for each in values), np.int32, len(rows))
        shared.append((frozenset[str]().union(*distinct.values()), [*distinct.values()], pa.array(which)))
    schema, arrays = staged_schema(table), []
    for field in schema:
        of_own = own.get(field.name)
        of = next((of for of in shared if field.name in of[0]), None)
        if isinstance(of_own, str):
            array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), pa.array([of_own]))
        elif field.name in own:
            array = of_own if isinstance(of_own, pa.Array) else pa.array(of_own, field.type)
        elif of is None:
            array = pa.nulls(len(rows), field.type)
        else:
            once = pa.array([each.get(field.name) for each in of[1]], field.type)
            is_text = pa.types.is_dictionary(field.type)
            array = (
                pa.DictionaryArray.from_arrays(once.indices.take(of[2]), once.dictionary)
                if is_text
                else once.take(of[2])
            )
        arrays.append(array)
    found = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if "stated_id" not in schema.names:
        return found
    # Beats and answers without a stated id derive it from their columns (`rows.timed_id`).
    met = with_columns(found, namesrv_addr=found["namesrv_id"])
    made = ask(f"SELECT {derived_of(table)['event_id']} FROM met", {"met": pa.Table.from_batches([met])})
    following = pa.concat_arrays(made[0].chunks)
    ids = pc.coalesce(found["event_id"], following)
    stated = pc.if_else(pc.equal(ids, following), pa.scalar(None, STRING), ids)
    return with_columns(found, event_id=ids, stated_id=stated)


ROWS_AT_A_TIME = 250_000
"""Rows of stored files in memory at one time."""
_ROWS_ASKED, _BYTES_ASKED = 65_536, 16 << 20
# DuckDB spills to disk above this.
_MEMORY = "64MB"
# Bytes in memory at one time, and rows in a file.
_BYTES_AT_A_TIME, _ROWS_PER_FILE = 48 << 20, 131_072
_ORIGIN = ("ingest_run", "source_file", "source_offset")
# Columns that ingest fills in itself.
_FILLED_IN = (*_ORIGIN, "day", "nth", "stated_id", "seq_rest", "request_rest", "namesrv_addr")


@contextmanager
def staging_in(
    folder: str, run_id: str, run_day: dt.date, namesrv_of: Mapping[str, str] | None = None
) -> Iterator[Staging]:
    """Yield a staging area in `folder`, which is removed at the end; see `Run` for the other parameters."""
    system, place = filesystem_of(folder)
    system.create_dir(place)
    try:
        with tempfile.TemporaryDirectory(prefix="spilled-", dir=local_path(folder)) as spilled:
            staging = Staging(Run(folder, run_id, run_day, namesrv_of or {}), "", spilled)
            try:
                yield staging
            finally:
                staging.close()
    finally:
        system.delete_dir(place)


class _StagedFile(NamedTuple):
    """A file of rows. `number` is added to the numbers of its rows and frames, `line` to its line numbers."""

    path: str
    number: int
    line: int

    def rows(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        # Not memory-mapped: read parts would stay in memory.
        system, place = filesystem_of(self.path)
        with system.open_input_file(place) as file:
            names = [] if columns is None else pa.ipc.open_stream(file).schema.names
            file.seek(0)
            numbers = [names.index(name) for name in names if columns is not None and name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=numbers or None)
            for batch in pa.ipc.open_stream(file, options=options):
                rows = pa.Table.from_batches([batch])
                for column, first in (("_n", self.number), ("_frame", self.number), ("source_offset", self.line)):
                    if first and column in rows.column_names:
                        # A number below 0 is not that of a line.
                        is_number = pc.greater_equal(rows[column], 0)
                        moved = pc.if_else(is_number, pc.add(rows[column], first), rows[column])
                        rows = with_columns(rows, **{column: moved})
                yield rows


class Staging(Collector):
    """Collects rows by table in files under one folder, and runs SQL over them.

    A row in `moved` (_n, seq, is_taken) gives the staged row `_n` another position.
    """

    def __init__(self, run: Run, name: str, spilled: str) -> None:
        super().__init__(run, name)
        self._files: defaultdict[str, list[_StagedFile]] = defaultdict(list)
        self._on_day: dict[str, dt.date | None] = {}
        self.broken: dict[int, int] = {}
        """Row numbers in quarantine of rows that broke a rule or have no place, with the numbers of the original rows."""
        self._con = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": spilled})
        self.ask("SET TimeZone = 'UTC'; CREATE TABLE moved (_n BIGINT, seq BIGINT, is_taken BOOLEAN)")

    def close(self) -> None:
        """Close all files."""
        super().close()
        self._con.close()

    def add_files(self, files: Mapping[str, str], days: Collection[dt.date], number: int, line: int) -> None:
        """Add files of rows by table, in the form of `as_staged`; their row and line numbers start after `number` and `line`."""
        for name, path in files.items():
            self._files[name].append(_StagedFile(path, number, line))
        self.tables.update(files)
        self.days.update(days)

    def settle(self, name: str, on_day: dt.date | None = None, *, placed: bool = False) -> None:
        """End the collecting of a table's rows. `kept_<name>` then has each key once, with the row that was added last.

        That row counts for all copies: `_frames` is their number of frames and lines. `on_day`: the day of all rows. `placed`: also
        keep the columns of each row's position.
        """
        self._on_day[name] = on_day
        if (path := self.end(name)) is not None:
            self._files[name].insert(0, _StagedFile(path, 0, 0))
        schema, key = staged_schema(STAGED[name]), ", ".join(f'"{column}"' for column in STAGED[name].key)
        place = ("namesrv_id", "seq", "_seq_is_given") if placed else ()
        of_last = [column for column in place if column in schema.names]
        wanted = list(dict.fromkeys([*STAGED[name].key, "_n", "_frame", *of_last]))
        given = pa.RecordBatchReader.from_batches(
            pa.schema([schema.field(column) for column in wanted]),
            (batch for rows in self._rows(name, wanted) for batch in rows.select(wanted).to_batches()),
        )
        fields = "* REPLACE (namesrv_id::VARCHAR AS namesrv_id)" if "namesrv_id" in of_last else "*"
        self.ask(f"CREATE OR REPLACE TABLE staged AS SELECT {fields} FROM given", given=given)
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

    def _rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        return (rows for file in self._files[name] for rows in file.rows(columns))

    def columns(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of all staged rows of a table, with copies, in batches."""
        return together(self._rows(name, columns), _ROWS_ASKED, _BYTES_ASKED)

    def rows(self, name: str) -> Iterator[pa.Table]:
        """Yield the kept rows in batches, with `_n`, `_frames`, `_seq_is_given` and `_seq_is_taken`."""
        day = self._on_day[name]
        for staged in together(self._rows(name), _ROWS_ASKED, _BYTES_ASKED):
            rows, (frames,) = self.of_batch(staged, f"SELECT _n, _frames FROM kept_{name}")
            if not len(rows):
                continue
            rows = rows.drop_columns(["_frame"]).append_column("_frames", frames)
            if day is not None:
                rows = with_columns(rows, day=pa.repeat(pa.scalar(day), len(rows)))
            moved = self.ask("FROM moved SEMI JOIN rows USING (_n)", rows=rows.select(["_n"]))
            at = pc.index_in(rows["_n"], moved["_n"])
            if len(moved):
                rows = with_columns(rows, seq=pc.coalesce(moved["seq"].take(at), rows["seq"]))
            yield rows.append_column("_seq_is_taken", pc.fill_null(moved["is_taken"].take(at), fill_value=False))

    def of_batch(self, rows: pa.Table, found: str) -> tuple[pa.Table, list[pa.ChunkedArray]]:
        """Return the rows whose number the query `found` has, and its other columns for these rows."""
        low, high = pc.min_max(rows["_n"]).as_py().values()
        near = self.ask(f"SELECT * FROM ({found}) WHERE _n BETWEEN {low or 0} AND {high or 0}")
        at = pc.index_in(rows["_n"], near["_n"])
        kept = rows.filter(at.is_valid()) if at.null_count else rows
        return kept, near.drop_columns(["_n"]).take(at.drop_null()).columns

    def ask(self, query: str, **tables: Any) -> pa.Table:
        """Return the result of `query`, if it has one; the query also reads `tables` by their names."""
        for name, table in tables.items():
            self._con.register(name, table)
        try:
            found = self._con.sql(query)
            return None if found is None else found.to_arrow_table()
        finally:
            for name in tables:
                self._con.unregister(name)


def parts_of(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield stored files in groups of about as many rows as may be in memory at one time."""
    rows = accumulate(file.rows for file in files)
    for _, part in groupby(zip(rows, files, strict=True), key=lambda pair: pair[0] // ROWS_AT_A_TIME):
        yield [file for _, file in part]


# -- into the tables ---------------------------------------------------------------------------------------------------


def settle_staged(warehouse: Warehouse, staging: Staging, *, has_logs: bool) -> None:
    """Keep each staged row once, and give each event a position of its own.

    `has_logs`: some rows come from event logs, whose lines may lack the position. It is then made from the time, file by file, and
    events of one instant in different files share it. Rows of captures always have their own positions. On a conflict a stored
    event keeps its position, a given position precedes a made one, an earlier line a later one. The other event moves behind the
    last one of its microsecond. Two events with the same given position contradict each other: the later one is refused.
    """
    for name in staging.tables - {bronze.QUARANTINE.name}:
        staging.settle(name, placed=has_logs)
    found = [
        f"SELECT namesrv_id, event_id, seq, seq // {NS_PER_US} AS micros, _seq_is_given, _n FROM kept_{table.name}"
        for table in bronze.EVENT_TABLES
        if table.name in staging.tables
    ]
    if not has_logs or not found:
        return
    staging.ask(f"CREATE TABLE events AS {' UNION ALL '.join(found)}")
    staging.ask("CREATE TABLE neighbours (namesrv_id VARCHAR, event_id VARCHAR, seq BIGINT)")
    for table in bronze.EVENT_TABLES:
        for files in parts_of(warehouse.files(table, staging.days)):
            staging.ask(
                f"""INSERT INTO neighbours SELECT namesrv_id, event_id, seq FROM stored
                WHERE (namesrv_id, event_id) IN (SELECT (namesrv_id, event_id) FROM events)
                   OR (namesrv_id, seq // {NS_PER_US}) IN (SELECT (namesrv_id, micros) FROM events)""",
                stored=read_files(warehouse.path, table, files, ("namesrv_id", "event_id", "seq")),
            )
    staging.ask(query("ingest/moved"))


def write_staged(warehouse: Warehouse, staging: Staging, result: Ingested, last_day: dt.date) -> None:
    """Write the new ones of the settled rows into the tables, then the refused ones into quarantine; count both in `result`.

    Commits nothing. `last_day`: the day for refused pieces if nothing else is written.
    """
    days = set[dt.date]()
    if REVOKED in staging.tables:  # rows that later packets have proved wrong
        revoked = staging.ask(f'SELECT "table", list(event_id) AS ids FROM kept_{REVOKED} GROUP BY "table"')
        for row in revoked.to_pylist():
            table = WRITTEN[row["table"]]
            # Most of them are on the last day.
            days |= take_out(warehouse, table, row["ids"], reversed(warehouse.files(table)))
    for name in sorted(staging.tables & WRITTEN.keys()):
        counted = _write_new(warehouse, staging, WRITTEN[name])
        if name == bronze.ROUTE_OBSERVATIONS.name:
            result.observations += counted["new"]
        else:
            result.events += counted["new"]
        result.duplicates += counted["repeated"]
        result.quarantined += counted["refused"]
        days.update(counted["days"])
    if bronze.QUARANTINE.name in staging.tables:
        # Refused rows do not belong to the history of their own day, so that day need not be recomputed.
        days = days or {last_day}
        staging.settle(bronze.QUARANTINE.name, max(days))
        for rows in staging.rows(bronze.QUARANTINE.name):
            result.reasons.update(rows["reason"].to_pylist())
        counted = _write_new(warehouse, staging, bronze.QUARANTINE)
        result.quarantined += counted["new"] + counted["repeated"]
    result.days = sorted(days)


def take_out(warehouse: Warehouse, table: Table, keys: Iterable[str], files: Iterable[DataFile]) -> set[dt.date]:
    """Remove the rows with these keys, each stored once, from `files`; return their days."""
    left, days = set(keys), set[dt.date]()
    for file in files:
        if not left:
            break
        is_one = pc.field(table.key[0]).isin(sorted(left))
        found = read_files(warehouse.path, table, [file], table.key, is_one)[0]
        if len(found):
            rest = read_files(warehouse.path, table, [file], filter=~is_one)
            warehouse.write(table, rest, file.day, [file])
            left.difference_update(found.to_pylist())
            days.update([file.day] if file.day else [])
    return days


# A made position is not new content: among other lines of a file it would have been another one.
_OUTCOMES = """
INSERT INTO outcomes SELECT _n, _frames,
       CASE WHEN _is_refused THEN 'refused' WHEN known_key IS NULL THEN 'new'
            WHEN _seq_is_given AND known_content <> {content} THEN 'changed' ELSE 'known' END AS outcome,
       {day}, known_day, CASE WHEN outcome = 'changed' THEN {key} END
FROM checked LEFT JOIN (SELECT DISTINCT ON (known_key) * FROM known) ON known_key = {key}
"""
_COUNTED = """
SELECT coalesce(count_if(outcome = 'new' AND frames > 0), 0)::BIGINT AS new,
       coalesce(count_if(outcome = 'refused' AND frames > 0), 0)::BIGINT AS refused,
       coalesce(sum(frames), 0)::BIGINT - new - refused AS repeated,
       coalesce(list(DISTINCT day) FILTER (is_changed AND day IS NOT NULL), [])
         || coalesce(list(DISTINCT old_day) FILTER (is_changed AND old_day IS NOT NULL), []) AS days,
       coalesce(list(changed) FILTER (changed IS NOT NULL), []) AS changed
FROM (SELECT *, outcome IN ('new', 'changed') AS is_changed FROM outcomes)
"""


def _write_new(warehouse: Warehouse, staging: Staging, table: Table) -> Values:
    """Write the kept rows that `table` lacks or has with other content, unless they are refused.

    Returns the frames behind rows that are new, repeated, refused; and the days of new and changed rows, before and after.
    """
    day = "day" if "day" in table.column_names else "NULL::DATE"
    content = f"hash({', '.join(column for column in table.column_names if column not in _ORIGIN)})"
    key, has_rules = table.key[0], table in bronze.RECORDED_TABLES
    staging.ask(
        """CREATE OR REPLACE TABLE known (known_key VARCHAR, known_day DATE, known_content UBIGINT);
        CREATE OR REPLACE TABLE outcomes (_n BIGINT, frames BIGINT, outcome VARCHAR, day DATE, old_day DATE, changed VARCHAR)"""
    )
    # Quarantine and topic tables have no single day on which a stored copy would be found.
    files = warehouse.files(table, staging.days if has_rules else None)
    for part in parts_of(files):
        keys = read_files(warehouse.path, table, part, [key]).rename_columns(["key"])  # file after file
        numbers = pa.array(np.repeat(np.arange(len(part)), [file.rows for file in part]))
        met = staging.ask(
            f"""SELECT file, list(key) AS keys FROM keys
            SEMI JOIN (SELECT {key} AS key FROM kept_{table.name}) USING (key) GROUP BY file""",
            keys=keys.append_column("file", numbers),
        )
        found = (
            read_files(warehouse.path, table, [part[of["file"]]], filter=pc.field(key).isin(of["keys"]))
            for of in met.to_pylist()
        )
        for stored in together(found, _ROWS_PER_FILE, _BYTES_AT_A_TIME):
            staging.ask(f"INSERT INTO known SELECT {key}, {day}, {content} FROM stored", stored=stored)
    # The content is compared only if some keys are stored already.
    [[are_met]] = staging.ask("SELECT count(*) > 0 FROM known").to_pydict().values()
    outcomes = _OUTCOMES.format(key=key, day=day, content=content if are_met else "NULL")

    def wanted() -> Iterator[pa.Table]:
        for rows in staging.rows(table.name):
            is_refused = _refused(staging, table, rows) if has_rules else pa.repeat(False, len(rows))
            staging.ask(outcomes, checked=rows.append_column("_is_refused", is_refused))
            yield staging.of_batch(rows, "SELECT _n FROM outcomes WHERE outcome IN ('new', 'changed')")[0]

    # Each file has rows of one day, in order.
    order = [(column, "ascending") for column in ("namesrv_id", "seq", key) if column in table.column_names]
    added = list[DataFile]()
    for rows in together(wanted(), _ROWS_PER_FILE, _BYTES_AT_A_TIME):
        days = pc.unique(rows["day"]).to_pylist() if "day" in table.column_names else [None]
        for at in days:
            of_day = rows if len(days) == 1 else rows.filter(pc.field("day") == at)
            of_day = of_day.unify_dictionaries().combine_chunks()
            keys = {name: of_day[name] for name, _ in order}
            texts = {name: of.cast(STRING) for name, of in keys.items() if pa.types.is_dictionary(of.type)}
            of_day = of_day.take(pc.sort_indices(pa.table(keys | texts), order))
            added.append(write_file(of_day, warehouse.path, table, at, warehouse.run_id))
    counted: Values = staging.ask(_COUNTED).to_pylist()[0]
    take_out(warehouse, table, counted["changed"], files)
    if added:
        warehouse.change(table, added)
    return counted


def _refused(staging: Staging, table: Table, rows: pa.Table) -> pa.Array:
    """Return which rows break rules or have no place, and stage quarantine rows for them; the refused piece is the row as JSON."""
    broken = reasons(rows, table.name)
    is_refused = pc.or_(pc.greater(pc.list_value_length(broken), 0), rows["_seq_is_taken"])
    if not pc.any(is_refused).as_py():
        return is_refused
    for row in rows.append_column("_broken", broken).filter(is_refused).to_pylist():
        # The address as it was met: which name server it belongs to may become known later.
        met = {**row, "namesrv_id": row["namesrv_addr"]}
        columns = {name: met[name] for name in table.column_names if name not in _FILLED_IN}
        piece = json.dumps(
            _without_nulls(columns),
            ensure_ascii=False,
            separators=(",", ":"),
            default=lambda at: f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
        ).encode()
        taken = [Reason.SEQ_TAKEN.value] if row["_seq_is_taken"] else []
        reason = taken[0] if taken else BROKEN_RULE
        identity = f"{reason}\n{table.name}\n".encode() + piece
        shared = ("namesrv_id", "namesrv_addr", "channel_id", "source_file", "source_offset")
        values = {
            **{name: row[name] for name in shared},
            "quarantine_id": hashlib.sha256(identity).hexdigest()[:32],
            "reason": reason,
            "detail": f"{table.name}: {', '.join([*row['_broken'], *taken])}",
            "length": len(piece),
            "sha256": hashlib.sha256(piece).hexdigest(),
            "first_bytes": piece[:FIRST_BYTES].hex(),
            "decoder_version": DECODER_VERSION,
            "event_time": times.instant_us(row["event_time"]),
        }
        staging.add([Row(bronze.QUARANTINE.name, values)], [None])
        staging.broken[staging.count] = row["_n"]
    return is_refused


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(of) for name, of in value.items() if of is not None}
    return [_without_nulls(of) for of in value] if isinstance(value, list) else value

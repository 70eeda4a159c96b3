"""Rows on their way from a reader into the tables: typed Arrow in files, so that memory does not grow with the input.

Set logic is done in SQL, and on what is narrow: keys, positions, numbers. Whole rows, of which one may be as long as a frame,
are only ever passed along, some at a time.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.ingest.collecting import STAGED, Collector, Run, staged_schema
from jobs.store.files import DataFile
from jobs.store.places import filesystem_of, local_path
from namesrv_day.arrow.rows import with_columns

ROWS_AT_A_TIME = 250_000
"""Rows of stored files that are in memory together."""
_ROWS_ASKED, _BYTES_ASKED = 65_536, 16 << 20
# What DuckDB needs beyond goes to files.
_MEMORY = "64MB"


@contextmanager
def staging_in(
    folder: str, run_id: str, run_day: dt.date, namesrv_of: Mapping[str, str] | None = None
) -> Iterator[Staging]:
    """Give a staging area in `folder`, which is removed at the end; see `Run` for the rest."""
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
    """A file of rows; `number`, `line`: what is added to the numbers of its rows and frames, and of their lines."""

    path: str
    number: int
    line: int

    def rows(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        # Not mapped: what was read of it would stay in memory.
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
                        # Below 0: no number of a line.
                        is_number = pc.greater_equal(rows[column], 0)
                        moved = pc.if_else(is_number, pc.add(rows[column], first), rows[column])
                        rows = with_columns(rows, **{column: moved})
                yield rows


class Staging(Collector):
    """Collects rows by table in files under one folder, and answers SQL about them.

    Whoever fills `moved` (_n, seq, is_taken) gives rows other positions.
    """

    def __init__(self, run: Run, name: str, spilled: str) -> None:
        super().__init__(run, name)
        self._files: defaultdict[str, list[_StagedFile]] = defaultdict(list)
        self._on_day: dict[str, dt.date | None] = {}
        self.broken: dict[int, int] = {}
        """Numbers of rows of quarantine that stand for rows which broke a rule or have no place, and the numbers of these."""
        self._con = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": spilled})
        self.ask("SET TimeZone = 'UTC'; CREATE TABLE moved (_n BIGINT, seq BIGINT, is_taken BOOLEAN)")

    def close(self) -> None:
        """Let go of all files."""
        super().close()
        self._con.close()

    def add_files(self, files: Mapping[str, str], days: Collection[dt.date], number: int, line: int) -> None:
        """Add files of rows by table, as `as_staged` gives them, of which numbers and lines count from `number` and `line`."""
        for name, path in files.items():
            self._files[name].append(_StagedFile(path, number, line))
        self.tables.update(files)
        self.days.update(days)

    def settle(self, name: str, on_day: dt.date | None = None, *, placed: bool = False) -> None:
        """End the collecting of a table's rows. `kept_<name>` then has its keys and of each the row that was added last.

        That stands for all copies: `_frames` is the number of frames and lines for which they stand. `on_day`: all are of that.
        `placed`: it also has what says where each stands.
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
        said = "* REPLACE (namesrv_id::VARCHAR AS namesrv_id)" if "namesrv_id" in of_last else "*"
        self.ask(f"CREATE OR REPLACE TABLE staged AS SELECT {said} FROM given", given=given)
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
        """Yield columns of all staged rows of a table, copies among them, some at a time."""
        return together(self._rows(name, columns), _ROWS_ASKED, _BYTES_ASKED)

    def rows(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows that are kept, some at a time, with `_n`, `_frames`, `_seq_is_given` and `_seq_is_taken`."""
        day = self._on_day[name]
        for staged in together(self._rows(name), _ROWS_ASKED, _BYTES_ASKED):
            rows, frames = self.of_batch(staged, f"SELECT _n, _frames FROM kept_{name}")
            if not len(rows):
                continue
            rows = rows.drop_columns(["_frame"]).append_column("_frames", pa.array(frames))
            if day is not None:
                rows = with_columns(rows, day=pa.repeat(pa.scalar(day), len(rows)))
            taken = np.zeros(len(rows), bool)
            moved = self.ask("FROM moved SEMI JOIN rows USING (_n)", rows=rows.select(["_n"])).to_pydict()
            if moved["_n"]:
                seq, numbers = rows["seq"].to_numpy().copy(), rows["_n"].to_numpy()
                order = np.argsort(numbers)
                at = order[np.searchsorted(numbers, moved["_n"], sorter=order)]
                seq[at], taken[at] = moved["seq"], moved["is_taken"]
                rows = with_columns(rows, seq=pa.array(seq))
            yield rows.append_column("_seq_is_taken", pa.array(taken))

    def of_batch(self, rows: pa.Table, found: str) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the rows of which the query `found` has the number, and its second column of these."""
        numbers = rows["_n"].to_numpy()
        if not len(numbers):
            return rows, numbers
        near = self.ask(f"SELECT * FROM ({found}) WHERE _n BETWEEN {numbers.min()} AND {numbers.max()} ORDER BY _n")
        kept, second = near[0].to_numpy(), near[1].to_numpy()
        if len(kept) == len(numbers) and np.array_equal(kept, numbers):
            return rows, second
        at = np.searchsorted(kept, numbers)
        is_kept = kept[np.minimum(at, len(kept) - 1)] == numbers if len(kept) else np.zeros(len(numbers), bool)
        return rows if is_kept.all() else rows.filter(pa.array(is_kept)), second[at[is_kept]]

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


def together(pieces: Iterable[pa.Table], most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows of all pieces, a table as soon as it has so many rows or bytes."""
    held, rows, size = list[pa.Table](), 0, 0
    for piece in pieces:
        held.append(piece)
        rows, size = rows + len(piece), size + piece.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


def parts_of(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield stored files, at once as many as have about so many rows as may be in memory together."""
    rows = accumulate(file.rows for file in files)
    for _, part in groupby(zip(rows, files, strict=True), key=lambda pair: pair[0] // ROWS_AT_A_TIME):
        yield [file for _, file in part]

"""Rows on their way from a reader into the tables: typed Arrow in files, so that memory does not grow with the input.

Set logic is done in SQL, and on what is narrow: keys, positions, numbers. Whole rows, of which one may be as long as a frame,
are only ever passed along, some at a time.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import datetime as dt
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.ingest.collecting import STAGED, Collector, Run, staged_schema
from jobs.store.files import DataFile

ROWS_AT_A_TIME = 250_000
"""Rows of stored files, or rows for one, that are in memory together."""
_ROWS_ASKED, _BYTES_ASKED = 65_536, 16 << 20
# What DuckDB needs beyond goes to files.
_MEMORY = "64MB"


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


class StagedFile(NamedTuple):
    """A file of rows; `number`, `line`: what is added to the numbers of its rows and frames, and of their lines."""

    path: Path
    number: int
    line: int

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield its rows, some at a time: all columns, or some."""
        wanted = None if columns is None else {*columns}
        # Not mapped: what was read of it would stay in memory.
        with pa.OSFile(str(self.path)) as file:
            names = pa.ipc.open_stream(file).schema.names if wanted is not None else []
            file.seek(0)
            numbers = [names.index(name) for name in names if wanted is not None and name in wanted]
            options = pa.ipc.IpcReadOptions(included_fields=numbers or None)
            for batch in pa.ipc.open_stream(file, options=options):
                rows = pa.Table.from_batches([batch])
                for column, first in (("_n", self.number), ("_frame", self.number), ("source_offset", self.line)):
                    if first and column in rows.column_names:
                        added = pc.add(rows[column], first)
                        # Below 0: no number of a line.
                        is_one = pc.greater_equal(rows[column], 0)
                        rows = _with(rows, column, pc.if_else(is_one, added, rows[column]))
                yield rows


class Staging(Collector):
    """Collects rows by table in files under one folder, and answers SQL about them.

    Whoever fills `moved` (_n, seq, is_taken) gives rows other positions.
    """

    def __init__(self, folder: Path, run_id: str, run_day: dt.date, namesrv_of: Mapping[str, str]) -> None:
        super().__init__(Run(folder, run_id, run_day, namesrv_of), "")
        self.folder, self.namesrv_of, self.run_id = folder, namesrv_of, run_id
        self._files: defaultdict[str, list[StagedFile]] = defaultdict(list)
        self._on_day: dict[str, dt.date | None] = {}
        self._with_copies: set[str] = set()
        self.broken: dict[int, int] = {}
        """Numbers of rows of quarantine that stand for rows which broke a rule or have no place, and the numbers of these."""
        self._con = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(folder / "spilled")})
        self.ask("SET TimeZone = 'UTC'; CREATE TABLE moved (_n BIGINT, seq BIGINT, is_taken BOOLEAN)")

    def close(self) -> None:
        """Let go of all files."""
        super().close()
        self._con.close()

    def add_files(self, files: Mapping[str, Path], days: Collection[dt.date], number: int, line: int) -> None:
        """Add files of rows by table, as `as_staged` gives them, of which numbers and lines count from `number` and `line`."""
        for name, path in files.items():
            self._files[name].append(StagedFile(path, number, line))
        self.tables.update(files)
        self.days.update(days)

    def settle(self, name: str, on_day: dt.date | None = None, *, placed: bool = False) -> None:
        """End the collecting of a table's rows. `kept_<name>` then has its keys and of each the row that was added last.

        That stands for all copies: `_frames` is the number of frames and lines for which they stand. `on_day`: all are of that.
        `placed`: it also has what says where each stands.
        """
        self._on_day[name] = on_day
        if (path := self.end(name)) is not None:
            self._files[name].insert(0, StagedFile(path, 0, 0))
        key = ", ".join(f'"{column}"' for column in STAGED[name].key)
        place = [column for column in ("namesrv_id", "seq", "_seq_is_given") if placed]
        names = staged_schema(STAGED[name]).names
        of_last = [column for column in place if column in names]
        wanted = list(dict.fromkeys([*STAGED[name].key, "_n", "_frame", *of_last]))
        rows = (some.select(wanted) for file in self._files[name] for some in file.rows(wanted))
        schema = pa.schema([staged_schema(STAGED[name]).field(column) for column in wanted])
        given = pa.RecordBatchReader.from_batches(schema, (batch for some in rows for batch in some.to_batches()))
        said = "*" if "namesrv_id" not in of_last else "* REPLACE (namesrv_id::VARCHAR AS namesrv_id)"
        self.ask(f"CREATE OR REPLACE TABLE staged AS SELECT {said} FROM given", given=given)
        [[are_several]] = self.ask(f"SELECT count(*) <> count(DISTINCT hash({key})) FROM staged").to_pydict().values()
        if are_several:
            self._with_copies.add(name)
        else:
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

    def files(self, name: str) -> list[StagedFile]:
        """Return the files of a table, if its rows are all kept where and as they stand there; else none."""
        [[are_moved]] = self.ask("SELECT count(*) > 0 FROM moved").to_pydict().values()
        return [] if are_moved or name in self._with_copies else list(self._files[name])

    def columns(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of all staged rows of a table, copies among them, some at a time."""
        return together(rows for file in self._files[name] for rows in file.rows(columns))

    def take(self, name: str, files: Iterable[StagedFile]) -> None:
        """Note that somebody has taken the rows of files: they are no more among `rows`."""
        for file in files:
            self._files[name].remove(file)

    def rows(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows that are kept, some at a time, with `_n`, `_frames`, `_seq_is_given` and `_seq_is_taken`."""
        day = self._on_day[name]
        for staged in self.staged(name):
            rows, frames = self.of_batch(staged, f"SELECT _n, _frames FROM kept_{name}")
            if not len(rows):
                continue
            rows = rows.drop_columns(["_frame"]).append_column("_frames", pa.array(frames))
            if day is not None:
                rows = _with(rows, "day", pa.repeat(pa.scalar(day), len(rows)))
            yield self._moved(rows)

    def staged(self, name: str) -> Iterator[pa.Table]:
        """Yield all rows of a table, copies among them, as many at a time as one question should be about."""
        return together(rows for file in self._files[name] for rows in file.rows())

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


def together(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of all pieces, as many at a time as one question should be about."""
    held: list[pa.Table] = []
    for rows in pieces:
        held.append(rows)
        if sum(map(len, held)) >= _ROWS_ASKED or sum(part.nbytes for part in held) >= _BYTES_ASKED:
            yield pa.concat_tables(held)
            held = []
    yield from [pa.concat_tables(held)] if held else []


def parts_of(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield stored files, at once as many as have about so many rows as may be in memory together."""
    rows = accumulate(file.rows for file in files)
    for _, part in groupby(zip(rows, files, strict=True), key=lambda pair: pair[0] // ROWS_AT_A_TIME):
        yield [file for _, file in part]


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values) if name in rows.column_names else rows

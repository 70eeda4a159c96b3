"""What a task of a night opens: files of tables, of one name server or of all. Made by the driver, read by the task."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import ColumnExpression, ConstantExpression, DuckDBPyRelation

from jobs.store.files import DataFile, bounds_of, closed_days, read_files
from jobs.store.relations import ask_files
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import derived_of, empty
from namesrv_day.arrow.sql import connection
from namesrv_day.day.alive import alive, as_of, columns_for
from schemas import gold
from schemas.rules import TABLES
from schemas.table import Table

T = TypeVar("T")
Named = Mapping[str, tuple[DataFile, ...]]


class _OnDays:
    """Rows that can be asked for as they were on a day."""

    def rows(
        self,
        table: Table,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        once: Collection[str] = (),
    ) -> pa.Table:
        """Return the rows of a table."""
        raise NotImplementedError

    def on(
        self,
        table: Table,
        day: dt.date | None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        still: bool = False,
    ) -> pa.Table:
        """Return the rows of a table on a day; of intervals those that were there on it as they were known when it ended.

        `still`: those that were open then; None: there was no such day. Raises as `Files.rows`.
        """
        if not table.has_intervals or day is None:
            return self.rows(table, columns, where)
        names = list(columns or table.column_names)
        there = alive(table, day, still=still) if where is None else alive(table, day, still=still) & where
        found = self.rows(table, columns_for(table, names), there)
        beats = empty(gold.LAST_HEARTBEATS)
        if table is gold.BROKER_LIVE_HISTORY:
            beats = self.rows(gold.LAST_HEARTBEATS, where=pc.field("day") == pa.scalar(day))
        return as_of(table, found, day, beats).select(names)


@dataclass(frozen=True)
class Files(_OnDays):
    """Data files by the name of their table, below the warehouse `root`. A table that is missing has no rows."""

    root: str
    named: Named = field(default_factory=dict)

    def rows(
        self,
        table: Table,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        once: Collection[str] = (),
    ) -> pa.Table:
        """Return the rows of a table: all columns or some, all rows or those `where`; see `read_files`. Raises TamperedError."""
        return read_files(self.root, table, self.named.get(table.name, ()), columns, where, once)

    def having(self, named: Named) -> Files:
        """Return the same with other files of some tables, by their names."""
        return Files(self.root, {**self.named, **named})

    def of(self, *namesrv_ids: str) -> OfNamesrv:
        """Return the same, of one name server, or of some together."""
        return OfNamesrv(self, frozenset(namesrv_ids))


@dataclass(frozen=True)
class OfNamesrv(_OnDays):
    """Rows of one name server, or of some together."""

    files: Files
    namesrv_ids: frozenset[str]

    def rows(
        self,
        table: Table,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        once: Collection[str] = (),
    ) -> pa.Table:
        """Return its rows of a table, as `Files.rows`."""
        own = pc.field("namesrv_id").isin(sorted(self.namesrv_ids))
        both = own if where is None else own & where
        parts = groupby(self.files_of(table), self._is_own)
        # Where a file is its own, to look at whose a row is takes longer than to read the row.
        found = [
            read_files(self.files.root, table, [*files], columns, where if is_own else both, once)
            for is_own, files in parts
        ]
        rows = pa.concat_tables(found) if found else read_files(self.files.root, table, (), columns)
        return rows.unify_dictionaries().combine_chunks() if once else rows

    def narrowed(self) -> Files:
        """Return just the files that may have rows of it."""
        return Files(self.files.root, {name: tuple(self.files_of(TABLES[name])) for name in self.files.named})

    def files_of(self, table: Table) -> Iterator[DataFile]:
        """Yield the files that may have rows of it."""
        for file in self.files.named.get(table.name, ()):
            low, high = bounds_of(file)
            if low is None or high is None or any(low <= own <= high for own in self.namesrv_ids):
                yield file

    def few(self, table: Table, columns: Sequence[str], clause: str, others: Mapping[str, pa.Table]) -> pa.Table:
        """Return columns of few of its rows: those that `clause` leaves, SQL behind `FROM rows` that may join `others`.

        A key that is not stored it does not see: that is made of the rows that are left.
        """
        made, none, con = derived_of(table), empty(table).select(columns), connection()
        keys = made.keys() & {*table.key}
        shown = ", ".join(f"{made[name]} AS {name}" if name in keys else f"rows.{name}" for name in columns)

        def left(rows: DuckDBPyRelation) -> pa.Table:  # noqa: ARG001  DuckDB finds it by its name
            return con.sql(f"SELECT {shown} FROM rows {clause}").to_arrow_table()  # noqa: S608  ours

        for name, other in others.items():
            con.register(name, other)
        try:
            found = self.ask(table, left, with_keys=False)
        finally:
            for name in others:
                con.unregister(name)
        return none if found is None else found.cast(none.schema)

    def ask(self, table: Table, ask: Callable[[DuckDBPyRelation], T], *, with_keys: bool = True) -> T | None:
        """Return what `ask` makes of its rows of a table (`relation_of`); None if there is no file."""
        own = ColumnExpression("namesrv_id").isin(*map(ConstantExpression, sorted(self.namesrv_ids)))
        if not (files := [*self.files_of(table)]):
            return None
        # Each step of a relation is bound anew.
        are_own = all(map(self._is_own, files))

        def asked(rows: DuckDBPyRelation) -> T:
            return ask(rows if are_own else rows.filter(own))

        return ask_files(self.files.root, table, files, asked, with_keys=with_keys)

    def _is_own(self, file: DataFile) -> bool:
        """Return whether all rows of a file are of one of them."""
        low, high = bounds_of(file)
        return low == high and low in self.namesrv_ids

    def frames(
        self, tables: Iterable[Table], day: dt.date | None = None, *, still: bool = False
    ) -> Mapping[str, pa.Table]:
        """Return its rows of several tables by name, as `on` gives them, each read when it is asked for."""
        return _Frames(lambda table: self.on(table, day, still=still), {table.name: table for table in tables})


class _Frames(Mapping[str, pa.Table]):
    """Tables by name that are read when they are asked for, and then kept."""

    def __init__(self, read: Callable[[Table], pa.Table], tables: Mapping[str, Table]) -> None:
        self._of, self._tables = read, tables
        self._read: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._read:
            self._read[name] = self._of(self._tables[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def files_of(
    warehouse: Warehouse, tables: Collection[Table], days: Collection[dt.date] | None, *, published: bool = False
) -> Files:
    """Return the files of some days (None: all) as this run sees them, or as the last published run left them.

    Of intervals those that were there on the first of the days, or later.
    """
    found = warehouse.published_files if published else warehouse.files
    named = {table.name: found(table, days) for table in tables}
    for table in tables:
        if table.has_intervals and days is not None:
            named[table.name] = [file for file in named[table.name] if days and is_alive(file, min(days))]
    return Files(warehouse.path, {name: tuple(files) for name, files in named.items()})


def is_alive(file: DataFile, day: dt.date) -> bool:
    """Return whether intervals of a file may have been there on a day, or later."""
    closed = closed_days(file)
    return closed is None or closed[1] >= day

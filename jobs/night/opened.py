"""What a task of a night opens: files of tables, of one name server or of all. Made by the driver, read by the task."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import ColumnExpression, ConstantExpression, DuckDBPyRelation

from jobs.store.files import DataFile, read_files
from jobs.store.relations import reading
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import derived_of, empty
from namesrv_day.arrow.sql import connection
from namesrv_day.day.alive import alive, as_of, columns_for
from schemas import gold
from schemas.table import Table


@dataclass(frozen=True)
class Files:
    """Data files by the name of their table, below the warehouse `root`. A table that is missing has no rows.

    `namesrv_ids`: of rows with a name server only theirs count; None: all do.
    """

    root: str
    named: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    namesrv_ids: frozenset[str] | None = None

    def having(self, named: Mapping[str, tuple[DataFile, ...]]) -> Files:
        """Return the same with other files of some tables, by their names."""
        return Files(self.root, {**self.named, **named}, self.namesrv_ids)

    def of(self, *namesrv_ids: str) -> Files:
        """Return the files that may have rows of one name server, or of some together."""
        own = {name: tuple(file for file in of if file.may_be_of(namesrv_ids)) for name, of in self.named.items()}
        return Files(self.root, own, frozenset(namesrv_ids))

    @classmethod
    def together(cls, some: Sequence[Files]) -> Files:
        """Return the files of some name servers together."""
        names = dict.fromkeys(name for one in some for name in one.named)
        named = {name: tuple(dict.fromkeys(file for one in some for file in one.named.get(name, ()))) for name in names}
        return cls(some[0].root, named, frozenset().union(*(one.namesrv_ids or () for one in some)))

    def files(self, table: Table) -> tuple[DataFile, ...]:
        """Return the files of a table."""
        return self.named.get(table.name, ())

    def rows(
        self,
        table: Table,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        once: Collection[str] = (),
    ) -> pa.Table:
        """Return the rows of a table: all columns or some, all rows or those `where`; see `read_files`. Raises TamperedError."""
        if self.namesrv_ids is None or not self.files(table):
            return read_files(self.root, table, self.files(table), columns, where, once)
        own = pc.field("namesrv_id").isin(sorted(self.namesrv_ids))
        both = own if where is None else own & where
        # Where a file is its own, to look at whose a row is takes longer than to read the row.
        parts = groupby(self.files(table), lambda file: self._is_own(table, file))
        found = [
            read_files(self.root, table, [*files], columns, where if is_own else both, once) for is_own, files in parts
        ]
        rows = pa.concat_tables(found)
        return rows.unify_dictionaries().combine_chunks() if once else rows

    def _is_own(self, table: Table, file: DataFile) -> bool:
        """Return whether all rows of a file count."""
        low, high = file.namesrvs
        is_of_one = self.namesrv_ids is None or (low == high and low in self.namesrv_ids)
        return is_of_one or "namesrv_id" not in table.column_names

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

        `still`: those that were open then; None: there was no such day. Raises as `rows`.
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

    def frames(
        self, tables: Iterable[Table], day: dt.date | None = None, *, still: bool = False
    ) -> Mapping[str, pa.Table]:
        """Return the rows of several tables by name, as `on` gives them, each read when it is asked for."""
        return _Frames(lambda table: self.on(table, day, still=still), {table.name: table for table in tables})

    @contextmanager
    def reading(self, table: Table, *, with_keys: bool = True) -> Iterator[DuckDBPyRelation]:
        """Give the rows of a table to be asked within, as `store.relations.reading`."""
        files = self.files(table)
        with reading(self.root, table, files, with_keys=with_keys) as rows:
            # Each step of a relation is bound anew.
            if all(self._is_own(table, file) for file in files):
                yield rows
            else:
                names = map(ConstantExpression, sorted(self.namesrv_ids or ()))
                yield rows.filter(ColumnExpression("namesrv_id").isin(*names))

    def few(self, table: Table, columns: Sequence[str], clause: str, others: Mapping[str, pa.Table]) -> pa.Table:
        """Return columns of few of the rows: those that `clause` leaves, SQL behind `FROM rows` that may join `others`.

        A key that is not stored it does not see: that is made of the rows that are left.
        """
        made, none, con = derived_of(table), empty(table).select(columns), connection()
        if not self.files(table):
            return none
        keys = made.keys() & {*table.key}
        shown = ", ".join(f"{made[name]} AS {name}" if name in keys else f"rows.{name}" for name in columns)
        for name, other in others.items():
            con.register(name, other)
        try:
            with self.reading(table, with_keys=False) as rows:  # noqa: F841  DuckDB finds it by its name
                return con.sql(f"SELECT {shown} FROM rows {clause}").to_arrow_table().cast(none.schema)  # noqa: S608  ours
        finally:
            for name in others:
                con.unregister(name)


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
    found, named = warehouse.published_files if published else warehouse.files, dict[str, tuple[DataFile, ...]]()
    for table in tables:
        files = found(table, days)
        if table.has_intervals and days is not None:
            files = [file for file in files if days and (file.closed is None or file.closed[1] >= min(days))]
        named[table.name] = tuple(files)
    return Files(warehouse.path, named)

"""Input of a task for a name server's day: file names, few rows, and the methods that read the files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from duckdb import ColumnExpression, ConstantExpression, DuckDBPyRelation

from jobs.errors import TamperedError
from jobs.store.files import DataFile, read_files, reading, write_file
from jobs.store.places import filesystem_of, table_path, unnamed
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import derived_of, empty
from namesrv_day.arrow.sql import ask, connection
from namesrv_day.day.alive import alive, as_of, columns_for
from namesrv_day.day.context import DURING, LOOKED_BACK_AT, Background
from namesrv_day.day.day_events import BEATS, EVENTS, RESPONSE_COLUMNS, day_events
from namesrv_day.day.timed import wrong_configs
from namesrv_day.hours.condense import HOURS, PERIOD_US
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.rules import TABLES
from schemas.table import Table
from schemas.times import day_start


def put_aside(folder: str, name: str, rows: pa.Table) -> str:
    """Write rows into a new file below `folder`, with a name that no other attempt uses; return its path."""
    system, place = filesystem_of(folder)
    system.create_dir(place)
    path, stream = unnamed(folder, name)
    with stream, pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows)
    return path


def taken_from(
    paths: Sequence[str], where: pc.Expression | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the rows of all of these files: all rows or those of `where`, all columns or some."""
    system, _ = filesystem_of(paths[0])
    places = [filesystem_of(path)[1] for path in paths]
    return ds.dataset(places, format="ipc", filesystem=system).to_table(columns=columns, filter=where)


@dataclass(frozen=True)
class Files:
    """Data files by table name, below the warehouse `root`. A missing table has no rows.

    `namesrv_ids`: only rows of these name servers count, in tables with name servers; None: all rows.
    """

    root: str
    named: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    namesrv_ids: frozenset[str] | None = None

    def having(self, named: Mapping[str, tuple[DataFile, ...]]) -> Files:
        """Return the same with other files for the tables in `named`."""
        return Files(self.root, {**self.named, **named}, self.namesrv_ids)

    def of(self, *namesrv_ids: str) -> Files:
        """Return the files that may have rows of these name servers, limited to their rows."""
        own = {name: tuple(file for file in of if file.may_be_of(namesrv_ids)) for name, of in self.named.items()}
        return Files(self.root, own, frozenset(namesrv_ids))

    @classmethod
    def together(cls, some: Sequence[Files]) -> Files:
        """Return the union of the files of several name servers."""
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
        """Return the rows of a table: all columns or some, all rows or those of `where`; see `read_files`. Raises TamperedError."""
        if self._is_of_some(table):
            own = pc.field("namesrv_id").isin(sorted(self.namesrv_ids or ()))
            where = own if where is None else own & where
        rows = read_files(self.root, table, self.files(table), columns, where, once)
        return rows.unify_dictionaries().combine_chunks() if once else rows

    def _is_of_some(self, table: Table) -> bool:
        """Return whether only rows of some name servers count in a table."""
        return self.namesrv_ids is not None and "namesrv_id" in table.column_names

    def on(
        self,
        table: Table,
        day: dt.date | None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        still: bool = False,
    ) -> pa.Table:
        """Return the rows of a table on a day; of intervals those that existed on it, as they were known at its end.

        `still`: only intervals open at its end; `day` None: there is no such day. Raises TamperedError as `rows`.
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

    @contextmanager
    def reading(self, table: Table, *, with_keys: bool = True) -> Iterator[DuckDBPyRelation]:
        """Yield a relation of the rows of a table, as `store.files.reading`."""
        with reading(self.root, table, self.files(table), with_keys=with_keys) as rows:
            names = map(ConstantExpression, sorted(self.namesrv_ids or ()))
            yield rows.filter(ColumnExpression("namesrv_id").isin(*names)) if self._is_of_some(table) else rows

    def few(self, table: Table, columns: Sequence[str], clause: str, others: Mapping[str, pa.Table]) -> pa.Table:
        """Return columns of those rows that `clause` leaves: SQL after `FROM rows` that may join `others`. For few rows.

        `clause` does not see a key that is not stored: the key is computed afterwards, for the remaining rows.
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


def files_of(
    warehouse: Warehouse, tables: Collection[Table], days: Collection[dt.date] | None, *, published: bool = False
) -> Files:
    """Return the files of some days (None: all) as this run sees them, or as the last published run left them.

    Of intervals: those that existed on the first of the days, or later.
    """
    found, named = warehouse.published_files if published else warehouse.files, dict[str, tuple[DataFile, ...]]()
    for table in tables:
        files = found(table, days)
        if table.has_intervals and days is not None:
            files = [file for file in files if days and (file.closed is None or file.closed[1] >= min(days))]
        named[table.name] = tuple(files)
    return Files(warehouse.path, named)


_SAID_OF_BEATS = {*EVENTS.names, "event_time", "effect_time", "response_code", "response_remark"}
# Consecutive periods of an address are merged into one time.
_PERIODS = """
SELECT broker_addr, make_timestamptz(min(period) * $period_us - 1) AS after,
    make_timestamptz((max(period) + 1) * $period_us - 1) AS last
FROM (SELECT *, period - row_number() OVER (PARTITION BY broker_addr ORDER BY period) AS run FROM beaten)
GROUP BY broker_addr, run
"""


@dataclass(frozen=True)
class NamesrvWork:
    """One name server's day, and the files that may have rows of it.

    `today`: bronze tables of the day, and topic_configs; `start`: the last day before, and `before` its tables, with the intervals
    that existed on it or later; `earlier`: namesrv_events up to the day, and expired_brokers of days before. `opened`: files of
    intervals that are published as open. `stash`: the files of its condensed heartbeats.
    `suspected`: as `flags.suspected.SUSPECTED`; `unread`: see `VerifyInput`.
    """

    namesrv_id: str
    day: dt.date
    run_id: str
    today: Files
    start: dt.date | None
    before: Files
    earlier: Files
    opened: Files
    stash: tuple[str, ...]
    background: Background
    suspected: pa.Table
    unread: tuple[tuple[int, int | None], ...]
    thresholds: Thresholds

    def write(self, rows: Mapping[Table, pa.Table]) -> dict[str, tuple[DataFile, ...]]:
        """Write rows of tables as files of the day; return the files, none for a table without rows."""
        found: dict[str, tuple[DataFile, ...]] = {}
        for table, of_table in rows.items():
            name = f"{self.run_id}-{len(found)}"
            some = [write_file(of_table, self.today.root, table, self.day, name)] if of_table.num_rows else []
            found[table.name] = tuple(some)
        return found

    def open_rows(self, tables: Iterable[Table]) -> dict[str, pa.Table]:
        """Return the rows of tables that existed, and were not over, when the day began."""
        return {table.name: self.before.on(table, self.start, still=True) for table in tables}

    def closed_before(self) -> dict[str, pa.Table]:
        """Return the rows of the last day before at which findings look back (`context.LOOKED_BACK_AT`)."""
        found = {}
        for table, what in LOOKED_BACK_AT.items() if self.start else ():
            closed = [file for file in self.before.files(table) if file.closed is not None or not table.has_intervals]
            rows = self.before.having({table.name: tuple(closed)}).on(table, self.start, where=what)
            found[table.name] = rows.filter(what)
        return found

    def hours(self) -> pa.Table:
        """Return the condensed heartbeats (`condense.HOURS`)."""
        if not self.stash:
            return HOURS.empty_table()
        return taken_from(self.stash, pc.field("namesrv_id") == self.namesrv_id, HOURS.names)

    def refused(self, reason: str) -> pa.Table:
        """Return the day's rows in quarantine with one reason."""
        begin = day_start(self.day)
        on_the_day = (pc.field("event_time") >= begin) & (pc.field("event_time") < begin + dt.timedelta(days=1))
        return self.today.rows(bronze.QUARANTINE, where=on_the_day & (pc.field("reason") == reason))

    def arrivals(self, ids: pa.Array) -> pa.Table:
        """Return the arrival times of events that end brokers' lives."""
        is_one = pc.field("event_id").isin(ids)
        ending = (bronze.UNREGISTRATIONS, bronze.CHANNEL_EVENTS)
        return pa.concat_tables([self.today.rows(table, ("event_id", "event_time"), is_one) for table in ending])

    def topic_configs(self, digests: pa.ChunkedArray) -> pa.Table:
        """Return the topic tables with some digests. Raises TamperedError if one is missing, or does not match its digest."""
        table = bronze.TOPIC_CONFIGS_TABLE
        if not len(digests):
            return empty(table)
        flat = digests.combine_chunks() if isinstance(digests, pa.ChunkedArray) else digests
        found = self.today.rows(table, where=pc.field("topic_config_digest").isin(flat))
        require_configs(self.today.root, found, digests.to_pylist())
        return found

    def raw_beats(
        self, kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.Table:
        """Return single heartbeats of one table, for `RawBeats`."""
        return self.today.rows(TABLES[kind], columns, where)

    def beats_during(self, kind: str, columns: Sequence[str], during: pa.Table, at: str = "event_time") -> pa.Table:
        """Return single heartbeats of one table, for `BeatsDuring`; `at`: the column with the time."""
        same = (
            f"rows.broker_addr IS NOT DISTINCT FROM during.broker_addr AND {at} > during.after AND {at} <= during.last"
        )
        return self.today.few(TABLES[kind], columns, f"SEMI JOIN during ON {same}", {"during": during})

    def single_beats(self, beaten: pa.Table, *, with_answers: bool) -> pa.Table:
        """Return the single heartbeats of each (broker_addr, period) as events, at their recorded positions."""
        during = ask(_PERIODS, {"beaten": beaten}, period_us=PERIOD_US).cast(DURING)
        said = {*_SAID_OF_BEATS, *(RESPONSE_COLUMNS if with_answers else ())}
        frames = {}
        for table in BEATS:
            columns = [name for name in table.column_names if name in said]
            frames[table.name] = self.beats_during(table.name, columns, during, "effect_time")
        return day_events(frames, tables=BEATS, with_answers=with_answers)


def require_configs(root: str, configs: pa.Table, digests: Collection[str | None] = ()) -> None:
    """Raise TamperedError if one of `digests` is missing, or a row of topic_configs does not match its digest."""
    missing = set(digests).difference(configs["topic_config_digest"].to_pylist(), [None])
    if wrong := [*wrong_configs(configs), *sorted(map(str, missing))]:
        where = table_path(root, bronze.TOPIC_CONFIGS_TABLE)
        raise TamperedError(f"topic_configs: {where} does not hold what was read as {wrong[0]}")

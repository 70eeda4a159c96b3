"""The second pass, over one day: settles, replays and verifies name servers, by their slices.

A task gets file names, few rows, and the methods that read the files (`Work`). It then derives flags, compares answers with the
histories, and finds differences from an earlier publication of the day. Each task counts rules, and takes digests, for all its
name servers at once.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from duckdb import ColumnExpression, ConstantExpression, DuckDBPyRelation

from jobs.errors import TamperedError
from jobs.passes import tell
from jobs.store.files import LONG_TEXTS, DataFile, read_files, reading, write_file
from jobs.store.intervals import Written, write_intervals
from jobs.store.places import filesystem_of, table_path
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_day.arrow import Digest, Slice, ask, conformed, connection, derived_of, empty, slices_of
from namesrv_day.context import (
    DURING,
    LOOKED_BACK_AT,
    Background,
    SettleInput,
    alive,
    as_of,
    beats_of,
    columns_for,
    extent_of,
    is_logged,
    on_a_day,
    recorded_day,
    stored,
)
from namesrv_day.events import BEATS, EVENTS, OTHERS, Frames, day_events, wrong_configs
from namesrv_day.findings import About, Compared, compared, refused_from, served
from namesrv_day.flags import FlagInput, flag, unsettled
from namesrv_day.hours import HOURS, PERIOD_US
from namesrv_day.numbers import outcome_counts
from namesrv_day.registered import Recorded, asked_from
from namesrv_day.replay import ReplayInput, replay
from namesrv_day.rules import Measurement, measure
from namesrv_day.settle import settle
from namesrv_day.verify import VerifyInput, map_capacities, verdicts
from schemas import bronze, gold
from schemas.findings import Thresholds
from schemas.rules import TABLES
from schemas.table import Table, words
from schemas.tables.event_outcomes import SYNTHETIC_OPERATIONS
from schemas.times import day_start


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


_BEAT_COLUMNS = {*EVENTS.names, "event_time", "effect_time", "response_body", "response_remark"}
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

    def single_beats(self, beaten: pa.Table) -> pa.Table:
        """Return the single heartbeats of each (broker_addr, period) and their responses as events, at their recorded positions."""
        during = ask(_PERIODS, {"beaten": beaten}, period_us=PERIOD_US).cast(DURING)
        frames = {}
        for table in BEATS:
            columns = [name for name in table.column_names if name in _BEAT_COLUMNS]
            frames[table.name] = self.beats_during(table.name, columns, during, "effect_time")
        return day_events(frames, tables=BEATS, with_answers=True)


def require_configs(root: str, configs: pa.Table, digests: Collection[str | None] = ()) -> None:
    """Raise TamperedError if one of `digests` is missing, or a row of topic_configs does not match its digest."""
    missing = set(digests).difference(configs["topic_config_digest"].to_pylist(), [None])
    if wrong := [*wrong_configs(configs), *sorted(map(str, missing))]:
        where = table_path(root, bronze.TOPIC_CONFIGS_TABLE)
        raise TamperedError(f"topic_configs: {where} does not hold what was read as {wrong[0]}")


REPLAYED = (gold.PAST_KNOWLEDGE,)
"""Day-cut tables whose slices a replay writes. Intervals are written later, after a comparison with existing ones."""
REPORTED = tuple(table for step in ("outcomes", "flags", "verify") for table in gold.made_by(step) if table.is_by_day)
"""Day-cut tables whose slices are written after a replay: outcomes, flags, verdicts."""
SETTLED = (gold.NAMESRV_SETTINGS, gold.ORDER_DECISIONS)
"""Tables that are taken over even if earlier days must be replayed first."""
_OF_DAY = (*OTHERS, bronze.ROUTE_OBSERVATIONS)
# Share of a replay in the time of a name server's day, about.
_REPLAY = 0.7


@dataclass(frozen=True)
class NamesrvResult:
    """Result of one name server's day.

    Written files, and the result for its intervals; `events` that the core took, and their count by outcome; `reconsidered_since`:
    from this position on earlier days were replayed with a value that turns out wrong; rows to compare with other name servers; its
    coverage (`coverage.recorded_day`).
    """

    namesrv_id: str
    files: dict[str, tuple[DataFile, ...]]
    events: int
    intervals: dict[str, Written]
    outcomes: Counter[str]
    reconsidered_since: int | None
    compared: Compared
    coverage: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class GroupResult:
    """Result of a day of several name servers: of each, and the counts over all their rows.

    `digests`: of the day's gold slices; `measurements`: their rules.
    """

    each: list[NamesrvResult] = field(default_factory=list)
    digests: dict[Slice, Digest] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)


def replay_namesrvs(work: Sequence[NamesrvWork]) -> GroupResult:
    """Settle, replay and verify one day of some name servers: the task of the pass. All their slices are in memory at one time."""
    each = []
    for number, one in enumerate(work):
        each.append(_replayed(one, lambda share, behind=number: tell((behind + _REPLAY * share) / len(work))))  # type: ignore[misc]
    results = [of for of, _ in each]
    slices = {table.name: pa.concat_tables([of[table.name] for _, of in each]) for table in DATA_TABLES}
    digests = {
        cut: digest for of in results for written in of.intervals.values() for cut, digest in written.digests.items()
    }
    for table in (table for table in gold.REPORT_TABLES if table.is_by_day):
        digests |= slices_of(table.name, slices[table.name])
    day = work[0].day
    # Rules about intervals cover those that existed on the day.
    intervals = {table.name: conformed(slices[table.name], on_a_day(table), day=day) for table in gold.INTERVAL_TABLES}
    frames = {**slices, **intervals, **_recorded(Files.together([one.today for one in work]), day, slices)}
    measured = measure(frames, slices, [day], which=lambda rule: rule.scope != "table")
    return GroupResult(results, digests, measured)


def _replayed(work: NamesrvWork, tell: Callable[[float], None]) -> tuple[NamesrvResult, dict[str, pa.Table]]:
    """Return the result of one name server's day, and its slices."""
    frames = {table.name: work.today.rows(table, once=LONG_TEXTS & {*table.column_names}) for table in _OF_DAY}
    frames["hours"] = hours = work.hours()
    answers = frames[bronze.ROUTE_OBSERVATIONS.name]
    extent, life = extent_of(frames), {bronze.NAMESRV_EVENTS.name: frames[bronze.NAMESRV_EVENTS.name]}
    capacities = work.before.rows(gold.MAP_CAPACITIES)
    open_rows = work.open_rows([*gold.HISTORY_TABLES, gold.PAST_KNOWLEDGE])
    settled = settle(
        SettleInput(
            work.namesrv_id,
            work.day,
            frames,
            work.raw_beats,
            work.topic_configs,
            open_rows,
            work.earlier.rows(bronze.NAMESRV_EVENTS),
            work.background,
        )
    )
    namesrv = settled.context.namesrv
    done = replay(
        ReplayInput(
            settled.context,
            work.day,
            hours,
            settled.others,
            open_rows,
            work.topic_configs,
            work.single_beats,
            capacities,
            answers,
            tell,
        )
    )
    slices = {table.name: conformed(done.tables[table.name], table) for table in (gold.ORDER_DECISIONS, *REPLAYED)}
    slices[gold.NAMESRV_SETTINGS.name] = conformed(settled.settings, gold.NAMESRV_SETTINGS)
    slices |= {table.name: done.tables[table.name] for table in (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES)}
    slices[gold.LAST_HEARTBEATS.name] = beats_of(work.day, slices[gold.BROKER_LIVE_HISTORY.name])
    slices[gold.MAP_CAPACITIES.name] = map_capacities(slices, capacities, namesrv, work.namesrv_id, work.day)
    files = work.write({table: slices[table.name] for table in (*SETTLED, *REPLAYED)})
    recorded_rows = Recorded(
        work.raw_beats, work.beats_during, work.topic_configs, work.arrivals, partial(asked_from, answers), work.refused
    )
    before = {
        **work.open_rows([gold.FINDINGS, gold.ORPHANED_TOPICS]),
        gold.EXPIRED_BROKERS.name: work.earlier.rows(gold.EXPIRED_BROKERS),
        **work.closed_before(),
    }
    today = {**slices, **life, "hours": hours, "suspected": work.suspected}
    seen_until = None if extent is None else extent.last
    slices |= flag(
        FlagInput(work.namesrv_id, namesrv, work.day, today, recorded_rows, before, work.thresholds, seen_until)
    )
    slices |= verdicts(
        VerifyInput(
            work.namesrv_id,
            work.day,
            namesrv,
            frames,
            work.raw_beats,
            slices,
            work.unread,
            capacities,
            is_suspected=bool(work.suspected.num_rows),
        )
    )
    all_slices = {**slices, **life}
    recorded = recorded_day(work.namesrv_id, work.day, all_slices, extent)
    # Intervals that closed on the day, and open ones unless a file already has them unchanged.
    intervals = {
        table.name: write_intervals(
            work.today.root,
            table,
            stored(table, slices[table.name]),
            work.namesrv_id,
            work.day,
            work.run_id,
            [work.before.files(table), work.opened.files(table)],
        )
        for table in gold.INTERVAL_TABLES
    }
    # A log may not show everything, so nothing is compared with it.
    is_log = is_logged(slices[gold.PAST_KNOWLEDGE.name])
    goes_on = work.start == work.day - dt.timedelta(days=1) and work.background.settings_before.num_rows
    goes_on_from = day_start(work.day) if goes_on else None
    spans = [] if is_log else served(recorded, next(iter(unsettled(all_slices)), None), goes_on_from)
    about = About(work.namesrv_id, work.day, work.thresholds)
    result = NamesrvResult(
        work.namesrv_id,
        {**files, **work.write({table: slices[table.name] for table in REPORTED})},
        done.events,
        intervals,
        outcome_counts(slices[gold.EVENT_OUTCOMES.name], pc.sum(hours["beats"]).as_py() or 0),
        settled.reconsidered_since,
        compared(all_slices, before[gold.FINDINGS.name], spans, refused_from(answers), about),
        recorded,
    )
    return result, slices


def _recorded(today: Files, day: dt.date, slices: Frames) -> dict[str, pa.Table]:
    """Return the recorded rows that the day's slices name, with the columns that rules need."""
    named, tables = ask(_NAMED, slices, day=day), bronze.RECORDED_TABLES
    placed = named.filter(pc.field("seq").is_valid())
    seqs = {"seqs": pa.table({"seq": pc.unique(placed["seq"])})}
    # Nearly all lie at the position of an outcome, so only these are read. A decision on the order has moved a few.
    is_placed = pc.field("event_id").isin(placed["event_id"].combine_chunks())
    found = {
        table: today.few(table, _IDENTITY, "SEMI JOIN seqs USING (seq)", seqs).filter(is_placed) for table in tables
    }
    known = pa.concat_tables([rows.select(["event_id"]) for rows in found.values()])["event_id"].combine_chunks()
    others = named.filter(~pc.field("event_id").isin(known))["event_id"].combine_chunks()
    if len(others):
        is_other = pc.field("event_id").isin(others)
        found = {
            table: pa.concat_tables([rows, today.rows(table, _IDENTITY, is_other)]) for table, rows in found.items()
        }
    return {table.name: conformed(rows, table) for table, rows in found.items()}


_IDENTITY = ("namesrv_id", "seq", "event_id", "effect_time", "day")
_NAMED = f"""
WITH others AS (
    SELECT event_id FROM route_mismatches
    UNION SELECT opened_by FROM data_version_history WHERE CAST(valid_from AS DATE) = $day
    UNION SELECT closed_by FROM data_version_history UNION SELECT opened_by FROM orphaned_topics
    UNION SELECT closed_by FROM orphaned_topics
)
-- An outcome for what a response showed of an unknown past has the event's id with a suffix.
SELECT DISTINCT regexp_replace(event_id, '-response$', '') AS event_id, seq FROM event_outcomes
WHERE operation NOT IN ({words(SYNTHETIC_OPERATIONS)})
UNION ALL SELECT event_id, NULL FROM others WHERE event_id IS NOT NULL AND event_id NOT IN (SELECT event_id FROM event_outcomes)
"""  # noqa: S608  names of ours
"""Events that slices name and that may be recorded on their day; with the position, if an outcome has it."""

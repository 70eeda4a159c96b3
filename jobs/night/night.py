"""A night: the passes over its days, in order. No table changes until `commit`.

condense (all days at once) -> for each day: replay

One task settles, replays and verifies a name server's day; small name servers share a task.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from jobs import __version__
from jobs.errors import MissingDayError, TamperedError
from jobs.night.condensing import Condensed, condensed
from jobs.night.replaying import (
    REPLAYED,
    REPORTED,
    SETTLED,
    Files,
    GroupResult,
    NamesrvResult,
    NamesrvWork,
    files_of,
    replay_namesrvs,
    taken_from,
)
from jobs.passes import Passes, for_files
from jobs.store.files import reading
from jobs.store.intervals import go_on_as_published, replace_day, write_intervals
from jobs.store.ledger import ReadFile, days_of, differing, require_same
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_core.machine.events import US_PER_MS
from namesrv_day.arrow import Digest, Slice, ask, conformed, connection, empty, rows_of, slices_of
from namesrv_day.context import BEGINNINGS, IS_SCAN_LIFE, Background, stored
from namesrv_day.events import BEATS
from namesrv_day.findings import (
    BEATS_AT,
    BROKER_LISTS,
    FIRST_SEEN,
    FRESH_NS,
    REGISTERED,
    SUSPECTED,
    across,
    suspected,
    together,
)
from namesrv_day.rules import Measurement, merged
from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.rules import TABLES
from schemas.sql_files import query
from schemas.table import LONG, STRING, Table
from schemas.times import day_of, day_start_us

_ONE_DAY = dt.timedelta(days=1)
_RECORDED = frozenset(table.name for table in bronze.RECORDED_TABLES)
# No broker's lease is meant to be longer than thirty years.
_LONGEST_LEASE_MS = 10**12


@dataclass(frozen=True, slots=True)
class Days:
    """Work of a night: the `wanted` days of all `recorded` ones, and the ingest runs and sources that it is the first to cover.

    `touched`: days with rows that no published run covers; `asked`: days that were requested.
    """

    wanted: list[dt.date]
    recorded: list[dt.date]
    touched: frozenset[dt.date]
    asked: frozenset[dt.date]
    ingest_runs: list[str]
    sources: list[str]


def days_to_do(warehouse: Warehouse, asked: Collection[dt.date] = ()) -> Days:
    """Return the days to do: none, if published runs cover every source and no day was requested.

    From the first day with new rows on every day is recomputed; after a change of the configuration or of the software version,
    all are.
    """
    read, ledger = warehouse.recorded(), warehouse.ledger()
    left = [source for source in read if source.ingest_run not in ledger.covered]
    recorded = days_of(read)
    touched = frozenset(day for source in left for day in source.days)
    last = ledger.last
    changed = last is not None and (last.config_sha256, last.code_version) != (warehouse.conf.sha256, __version__)
    wanted = set(recorded) if changed else {day for day in recorded if touched and day >= min(touched)} | set(asked)
    ingest_runs = sorted({source.ingest_run for source in left})
    wanted |= _reopened(warehouse, sorted(wanted), recorded)
    sources = sorted(source.sha256 for source in left)
    return Days(sorted(wanted), recorded, touched, frozenset(asked), ingest_runs, sources)


def asked_days(read: Iterable[ReadFile], first: dt.date | None, last: dt.date | None) -> list[dt.date]:
    """Return the recorded days from `first` to `last`. Raises MissingDayError if one of these two is not recorded, or no day is."""
    days = days_of(read)
    missing = [day.isoformat() for day in (first, last) if day is not None and day not in days]
    if missing or not days:
        known = f"recorded: {len(days)} day(s), {days[0]} to {days[-1]}" if days else "nothing is recorded at all"
        raise MissingDayError(f"nothing is recorded on {' and on '.join(missing) or 'any day'}; {known}")
    return [day for day in days if (first is None or day >= first) and (last is None or day <= last)]


def before(day: dt.date, recorded: Iterable[dt.date]) -> dt.date | None:
    """Return the last recorded day before `day`."""
    return max((other for other in recorded if other < day), default=None)


def _reopened(warehouse: Warehouse, wanted: Sequence[dt.date], recorded: Sequence[dt.date]) -> set[dt.date]:
    """Return published days that now end differently, since their name servers are known to have continued.

    A lease that ended after the last event of a day was left open, because it was unknown whether a scan followed.
    """
    ends = {end for day in wanted if (end := before(day, recorded)) is not None and end not in wanted}
    # By name server: the day of the first lease end that had passed when one of `ends` was over.
    overdue: dict[str, dt.date] = {}
    columns = ["namesrv_id", "last_update_time", "heartbeat_timeout_ms"]
    tables = (gold.BROKER_LIVE_HISTORY, gold.LAST_HEARTBEATS)
    warehouse.hold(tables, ends)
    for day in sorted(ends):
        live = files_of(warehouse, tables, [day], published=True).on(gold.BROKER_LIVE_HISTORY, day, columns, still=True)
        for row in rows_of(live.filter(pc.field("heartbeat_timeout_ms").is_valid())):
            end = row["last_update_time"] + min(row["heartbeat_timeout_ms"], _LONGEST_LEASE_MS) * US_PER_MS
            if end < day_start_us(day + _ONE_DAY):
                overdue[row["namesrv_id"]] = min(day_of(end), overdue.get(row["namesrv_id"], dt.date.max))
    if not overdue:
        return set()
    seen = recorded_in(warehouse.slices_in_force())
    went_on = {name for day in wanted for name in warehouse.namesrvs_on(day)}
    reopened: set[dt.date] = set()
    for name, since in overdue.items():
        if name in went_on:
            # Scans ran to the end of each day after which a name server still appears.
            last = max((day for of, day in seen if of == name and day <= max(ends)), default=max(ends))
            reopened |= {day for day in recorded if max(since, last) <= day <= max(ends)}
    return reopened - set(wanted)


def starting_slices(warehouse: Warehouse, starts: Collection[dt.date]) -> dict[Slice, Digest]:
    """Return the ledger's gold slices for the ends of published days; for intervals with those that closed later."""
    if not starts:
        return {}
    in_force = warehouse.slices_in_force({None, *(day for day in warehouse.ledger().days if day >= min(starts))})
    gold_ones = ((TABLES[cut.table], cut, digest) for cut, digest in in_force.items())
    return {
        cut: digest
        for table, cut, digest in gold_ones
        if table.layer != "bronze" and (table.has_intervals or cut.day in starts)
    }


# -- holes -----------------------------------------------------------------------------------------------------------


def holes(inputs: Iterable[Slice], known: Iterable[Slice]) -> list[str]:
    """Return a sentence for each range of days without rows of a name server, between days with rows.

    `inputs`: bronze slices that a run read; `known`: those in the ledger.
    """
    fresh = recorded_in(inputs)
    seen, found = fresh | recorded_in(known), []
    for namesrv_id, eve in sorted({(name, day - _ONE_DAY) for name, day in fresh} - seen):
        earlier = max((day for name, day in seen if name == namesrv_id and day < eve), default=None)
        if earlier is not None:
            first = earlier + _ONE_DAY
            days = f"{eve}" if first == eve else f"{first} to {eve}"
            found.append(f"hole: nothing of {namesrv_id} is recorded on {days}, but on {earlier} and {eve + _ONE_DAY}")
    return found


def recorded_in(cuts: Iterable[Slice]) -> set[tuple[str, dt.date]]:
    """Return the pairs of name server and day in slices of recorded events."""
    return {(cut.namesrv_id, cut.day) for cut in cuts if cut.table in _RECORDED and cut.namesrv_id and cut.day}


_COMPARED = ("namesrv_id", "broker_name", "topic", "valid_from", "valid_to", "opened_by", "closed_by")
_EACH = gold.FINDINGS
_ANSWER = pa.struct([("seq", LONG), ("event_id", STRING)])
_BODIES = pa.schema([("namesrv_id", STRING), ("body", STRING), ("answers", pa.list_(_ANSWER))])
_MOST = 2_000
"""Answers that are examined of a name server's day: the last ones."""
_REGISTERING = "namesrv_id, broker_addr, broker_name, broker_id, seq, heartbeat_timeout_ms AS lease_ms"
_NEAR = "SELECT DISTINCT unnest([seq // $fresh_ns - 2, seq // $fresh_ns - 1, seq // $fresh_ns]) AS near FROM lists"
_BEATS = """
SELECT namesrv_id, broker_addr, min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM beats
WHERE broker_addr IS NOT NULL GROUP BY ALL
"""


def compare_namesrvs(
    warehouse: Warehouse, day: dt.date, results: Sequence[NamesrvResult]
) -> tuple[list[NamesrvResult], dict[Slice, Digest]]:
    """Write the findings from comparing name servers; return the results with these findings, and the findings' digests."""
    history = gold.TOPIC_QUEUE_HISTORY
    of_queues = [done.intervals[history.name] for done in results]
    written = tuple(file for of in of_queues for file in (*of.closed, *of.opened))

    def queues(names: Sequence[str], brokers: pa.Array) -> pa.Table:
        where = pc.field("namesrv_id").isin(names) & pc.field("broker_name").isin(brokers)
        return Files(warehouse.path, {history.name: written}).on(history, day, _COMPARED, where)

    found = across(together(done.compared for done in results), queues, day, warehouse.conf.thresholds)
    there, known = (warehouse.files(_EACH), warehouse.published_files(_EACH)), dict[Slice, Digest]()
    again = []
    for done in results:
        rows = found.filter(pc.field("namesrv_id") == done.namesrv_id)
        added = write_intervals(warehouse.path, _EACH, rows, done.namesrv_id, day, warehouse.run_id, there, "between")
        known |= added.digests
        both = done.intervals[_EACH.name].and_also(added)
        again.append(replace(done, intervals={**done.intervals, _EACH.name: both}))
    return again, known


def suspected_on(warehouse: Warehouse, day: dt.date, hours: Sequence[str]) -> pa.Table:
    """Return evidence of a day that name servers are one, or several, as `SUSPECTED`; `hours`: files of stashed heartbeats."""
    with reading(warehouse.path, bronze.ROUTE_OBSERVATIONS, warehouse.files(bronze.ROUTE_OBSERVATIONS, [day])) as rows:
        whole = rows.filter("code = 106 AND response_code = 0 AND body IS NOT NULL")
        bodies = whole.aggregate("namesrv_id, body, list({'seq': seq, 'event_id': event_id}) AS answers")
        answered = bodies.to_arrow_table().cast(_BODIES)
    lists = ask(query("flags/whole"), {"bodies": answered}, most=_MOST).cast(BROKER_LISTS)
    if not lists.num_rows:
        return SUSPECTED.empty_table()
    columns = ["namesrv_id", "broker_addr", "first_seq", "last_seq"]
    beats = taken_from(hours, None, columns) if hours else BEATS_AT.empty_table()
    given = {row["namesrv_addr"]: row["namesrv_id"] for row in warehouse.rows(bronze.ADDRESSES).to_pylist()}
    apart = {frozenset(given.get(address, address) for address in pair) for pair in warehouse.conf.apart}
    # For these name servers the configuration lists all addresses.
    listed = {name for name, conf in warehouse.conf.namesrvs.items() if conf.addresses is not None}
    names = {*lists["namesrv_id"].to_pylist(), *beats["namesrv_id"].to_pylist()}
    apart |= {frozenset((name, other)) for name in listed & names for other in names - {name}}

    def registered() -> pa.Table:
        near = ask(_NEAR, {"lists": lists}, fresh_ns=FRESH_NS)
        with reading(warehouse.path, bronze.REGISTRATIONS, warehouse.files(bronze.REGISTRATIONS, [day])) as rows:
            accepted = rows.filter("response_code = 0 AND refusal IS NULL AND broker_addr IS NOT NULL")
            found = accepted.project(f"{_REGISTERING}, seq // {FRESH_NS} AS near")
            near_lists = found.join(connection().from_arrow(near), "near", how="semi")
            return near_lists.to_arrow_table().select(REGISTERED.names).cast(REGISTERED)

    def eve() -> pa.Table:
        found = []
        for table in (bronze.HEARTBEATS, bronze.ROUTE_OBSERVATIONS):
            with reading(warehouse.path, table, warehouse.files(table, [day - _ONE_DAY]), with_keys=False) as rows:
                first = rows.aggregate("namesrv_id, min(seq) AS first_seq")
                found.append(first.to_arrow_table().cast(FIRST_SEEN))
        return pa.concat_tables(found)

    beats_at = ask(_BEATS, {"beats": beats}).cast(BEATS_AT)
    return suspected(beats_at, lists, registered, eve, apart, warehouse.conf.namesrvs)


T = TypeVar("T")
# Below this many rows the overhead of a task, and of queries for a group, dominates.
_ROWS_PER_TASK = 20_000
# Measured: so many heartbeats, which are condensed, take no longer than one answer or another event.
_HEARTBEATS_PER_ROW = 50
_HEARTBEATS = frozenset(table.name for table in BEATS)

_CARRIED = (*gold.INTERVAL_TABLES, gold.LAST_HEARTBEATS, gold.PAST_KNOWLEDGE, gold.MAP_CAPACITIES, gold.EVENT_OUTCOMES)
# How long a removed broker is waited for (`schemas.findings.Thresholds`).
_WAITED_DAYS = 7
_UNREAD = """
SELECT namesrv_id, epoch_us(min(seen.event_time)) AS from_us, epoch_us(min(ends.event_time)) AS until_us
FROM seen LEFT JOIN ends USING (channel_id) GROUP BY namesrv_id, channel_id ORDER BY from_us
"""


class Night:
    """The days of one run. The `Warehouse` holds its changes so far."""

    def __init__(self, warehouse: Warehouse, passes: Passes) -> None:
        self._warehouse, self._passes = warehouse, passes
        self.read = Condensed()
        """Result of reading the days."""
        self._condensed: set[dt.date] = set()
        self._settled: set[dt.date] = set()
        self._touched: frozenset[dt.date] = frozenset()
        self.starts: dict[Slice, Digest] = {}
        self._results: dict[dt.date, list[NamesrvResult]] = {}
        self._counted: dict[dt.date, list[GroupResult]] = {}
        self._ends_here = False
        """Whether intervals end with the last replayed day; otherwise they continue as published."""
        self._suspected: dict[dt.date, pa.Table] = {}

    def begin(self, days: Days) -> None:
        """Read the rows of the wanted days.

        Raises TamperedError if the night would start from other rows than were published. It compares with the ledger: the gold
        slices of the days before, the intervals of these and later days, and the older rows of days with new ones.
        What it puts others in place of is compared, too, unless the day was requested: damaged files are made anew on purpose only.
        """
        warehouse, wanted = self._warehouse, set(days.wanted)
        warehouse.hold((table for table in bronze.TABLES if table.partition_by), days.touched)
        starts = {start for day in wanted if (start := before(day, days.recorded)) is not None} - wanted
        starts &= warehouse.ledger().days
        warehouse.hold(DATA_TABLES, starts | (wanted - days.asked))
        self.starts = starting_slices(warehouse, starts)
        self._touched = days.touched
        self.condense(days.wanted, starts)

    def replay_days(self, wanted: Sequence[dt.date], recorded: Sequence[dt.date]) -> None:
        """Replay days in order, with those of `recorded` that follow from them.

        More than `wanted` are replayed if a day shows how a name server was configured since its process started, and earlier days
        assumed otherwise; or if a day before others is not as it was published.
        """
        pending = sorted(wanted)
        while pending:
            day = pending.pop(0)
            if earlier := self.replay(day):
                pending = sorted({day, *earlier, *pending})
                continue
            later = [other for other in recorded if other > day]
            is_last_wanted = bool(later) and later[0] not in pending
            goes_on = is_last_wanted and self._is_as_published(day)
            if is_last_wanted and not goes_on:
                pending = sorted({*later, *pending})
            # The tables of intervals end with the day, or continue after it as published.
            for table in gold.INTERVAL_TABLES:
                written = [done.intervals[table.name] for done in self._results[day]]
                closed = [file for of in written for file in of.closed]
                opened = [file for of in written for file in of.opened]
                if goes_on and self._ends_here:
                    go_on_as_published(self._warehouse, table, day, closed)
                else:
                    replace_day(self._warehouse, table, day, closed, None if goes_on else opened)
            self._ends_here = not goes_on

    @property
    def replayed(self) -> set[dt.date]:
        """Return the replayed days."""
        return {*self._results}

    @property
    def results(self) -> list[NamesrvResult]:
        """Return the results of all days."""
        return [of for day in sorted(self._results) for of in self._results[day]]

    @property
    def measurements(self) -> list[Measurement]:
        """Return the counted rules of all day-cut tables, over the rows that were read and written."""
        counted = (of for day in sorted(self._counted) for of in self._counted[day])
        parts = [*self.read.measurements, *(found for of in counted for found in of.measurements)]
        rows: Counter[str] = Counter()
        for cut, digest in {**self.read.digests, **self.outputs}.items():
            rows[cut.table] += digest.rows
        return merged(parts, [table.name for table in (*bronze.RECORDED_TABLES, *DATA_TABLES)], rows)

    @property
    def outputs(self) -> dict[Slice, Digest]:
        """Return the digests of the replayed days' slices, and of all open intervals."""
        found = {} if self._ends_here else self._warehouse.slices_in_force({None})
        for day in self._counted:
            is_last = self._ends_here and day == max(self._counted)
            found |= {cut: digest for cut, digest in self._written(day).items() if cut.day is not None or is_last}
        return found

    def _written(self, day: dt.date) -> dict[Slice, Digest]:
        """Return the digests of a replayed day's slices, and of the intervals open at its end."""
        found = dict[Slice, Digest]()
        for cut, digest in (of for one in self._counted[day] for of in one.digests.items()):
            found[cut] = found.get(cut, Digest()) + digest
        return found

    # -- condense ------------------------------------------------------------------------------------------------------

    def condense(self, days: Sequence[dt.date], starts: Collection[dt.date] = ()) -> None:
        """Read the rows of days; `starts`: the ends before them.

        Raises TamperedError unless published days without new rows are read as their runs read them, from undamaged files.
        """
        fresh = [day for day in days if day not in self._condensed]
        if fresh:
            found = condensed(self._warehouse, self._passes, fresh, starts)
            untouched = self._warehouse.ledger().days.intersection(fresh) - self._touched
            known = self._warehouse.slices_in_force(untouched)
            require_same(
                {cut: of for cut, of in found.digests.items() if cut.day in untouched},
                {cut: of for cut, of in known.items() if TABLES[cut.table].layer == "bronze"},
            )
            for sentence in found.damaged:
                raise TamperedError(f"{sentence}. Nothing was published")
            self.read.add(found)
            self._condensed.update(fresh)

    def suspected(self, day: dt.date) -> pa.Table:
        """Return evidence of a condensed day that name servers are one, or several, as `flags.suspected.SUSPECTED`."""
        if day not in self._suspected:
            stashed = sorted(self.read.stashed.items())
            hours = [path for (of, _), paths in stashed if of == day for path in paths]
            self._suspected[day] = suspected_on(self._warehouse, day, list(dict.fromkeys(hours)))
        return self._suspected[day]

    # -- replay --------------------------------------------------------------------------------------------------------

    def replay(self, day: dt.date) -> list[dt.date]:
        """Replay a day, and verify it.

        If earlier days must be replayed first, note only the day's settings, and return those days.
        """
        warehouse = self._warehouse
        self.condense([day])
        work = self._work(day)
        # A name server's weight: its recorded rows, and the rows that it begins with.
        counts = self._recorded_rows(day)
        begin = (sum(file.rows for files in one.before.named.values() for file in files) for one in work)
        weighed = ((one, counts[one.namesrv_id] + rows) for one, rows in zip(work, begin, strict=True))
        groups = grouped(weighed, self._passes.width)
        together = (for_files(self._passes) if len(groups) > 1 else self._passes).each(replay_namesrvs, groups)
        results = [of for group in together for of in group.each]
        self._replace(day, SETTLED, results)
        self._settled.add(day)
        since = min((of.reconsidered_since for of in results if of.reconsidered_since is not None), default=None)
        if since is not None:
            earlier = [d for d in days_of(warehouse.recorded(), first=day_of(since // 1_000)) if d < day]
            if earlier:
                return earlier
        self._replace(day, REPLAYED, results)

        # Take over the files of the tasks, and compare name servers.
        results.sort(key=lambda of: of.namesrv_id)
        self._replace(day, REPORTED, results)
        digests = dict[Slice, Digest]()
        if results:
            results, digests = compare_namesrvs(warehouse, day, results)
        self._results[day], self._counted[day] = results, [*together, GroupResult(digests=digests)]
        return []

    def _replace(self, day: dt.date, tables: Iterable[Table], done: Sequence[NamesrvResult]) -> None:
        """Take over the files of tables that tasks have written."""
        for table in tables:
            self._warehouse.replace(table, [day], [file for of in done for file in of.files[table.name]])

    def _work(self, day: dt.date) -> list[NamesrvWork]:
        """Return the work of a day: each name server with rows on the day, or with state that is carried through it."""
        warehouse = self._warehouse
        recorded = days_of(warehouse.recorded())
        # Every name server's state is carried through each replayed day.
        replayed = (file.day for file in warehouse.files(gold.NAMESRV_SETTINGS) if file.day is not None)
        start = before(day, replayed)
        starts = [] if start is None else [start]
        counts = self._recorded_rows(day)
        self._hold([gold.NAMESRV_SETTINGS], starts)
        settings = warehouse.rows(gold.NAMESRV_SETTINGS, starts) if starts else empty(gold.NAMESRV_SETTINGS)
        # What a later day found out counts if this run has found it: as published it may come from this day, as it was then.
        later = warehouse.rows(gold.NAMESRV_SETTINGS, [d for d in self._settled if d >= day])
        scan_life, addresses = self._scan_life(day, start), warehouse.rows(bronze.ADDRESSES)
        suspected = self.suspected(day)
        today = files_of(warehouse, [*(t for t in bronze.TABLES if t.partition_by), bronze.TOPIC_CONFIGS_TABLE], [day])
        # Quarantine files have the last day of the run that read them.
        read = {file.day for file in warehouse.files(bronze.QUARANTINE) if file.day is not None and file.day >= day}
        today = today.having(self._held([bronze.QUARANTINE], sorted(read)).named)
        carried = self._held(_CARRIED, starts)
        earlier = self._held([bronze.NAMESRV_EVENTS], [d for d in recorded if d <= day])
        beginnings = earlier.rows(bronze.NAMESRV_EVENTS, ["namesrv_id"], pc.field("kind").isin(BEGINNINGS))
        begun = set(beginnings["namesrv_id"].to_pylist())
        expired = self._held([gold.EXPIRED_BROKERS], [d for d in recorded if d < day][-_WAITED_DAYS:])
        earlier = earlier.having(expired.named)
        unread = self._unread()
        opened = files_of(warehouse, gold.INTERVAL_TABLES, [dt.date.max], published=True)
        # Large ones first: the last ones to end are small.
        names = sorted(counts.keys() | set(settings["namesrv_id"].to_pylist()), key=lambda name: (-counts[name], name))
        going_on = {name for name, later in recorded_in(self._slices()) if later > day}
        work = []
        for name in names:
            own = pc.field("namesrv_id") == name
            known_as = addresses.filter(own)
            work.append(
                NamesrvWork(
                    name,
                    day,
                    warehouse.run_id,
                    today.of(name),
                    start,
                    carried.of(name),
                    earlier.of(name),
                    opened.of(name),
                    self.read.stashed.get((day, name), ()),
                    Background(
                        settings.filter(own),
                        later.filter(own),
                        scan_life.filter(own),
                        warehouse.conf.given([name, *known_as["namesrv_addr"].to_pylist()]),
                        None if name in begun else self._first_seen(name),
                        name in going_on,
                        known_as,
                    ),
                    suspected.filter(own),
                    tuple(unread.get(name, ())),
                    warehouse.conf.thresholds,
                )
            )
        return work

    def _recorded_rows(self, day: dt.date) -> Counter[str]:
        """Return the number of recorded rows of each name server on a day; of heartbeats a share, as they take little time."""
        found: Counter[str] = Counter()
        for cut, digest in self.read.digests.items():
            if cut.day == day and cut.table in _RECORDED and cut.namesrv_id is not None:
                found[cut.namesrv_id] += digest.rows // (_HEARTBEATS_PER_ROW if cut.table in _HEARTBEATS else 1)
        return found

    def _slices(self) -> set[Slice]:
        """Return the slices of all days: as this run has read them, or else as the ledger has them."""
        in_force = self._warehouse.slices_in_force()
        return {*self.read.digests, *(cut for cut in in_force if cut.day not in self._condensed)}

    def _scan_life(self, day: dt.date, start: dt.date | None) -> pa.Table:
        """Return the outcomes that show whether periodic scans still run when `day` begins.

        The event that ended a scan for good, or began another, may be on any earlier day; the ledger knows the first such day.
        """
        if start is None:
            return empty(gold.EVENT_OUTCOMES)
        ledger = self._warehouse.ledger()
        unpublished = {d for d in days_of(self._warehouse.recorded()) if d not in ledger.days} | self.replayed
        failed = min((d for d in ledger.halting_days if d < day), default=day)
        days = {d for d in ledger.days if failed <= d < day}
        first = min({start, *unpublished})
        days |= {d for d in days_of(self._warehouse.recorded(), first=first) if d < day}
        self._hold([gold.EVENT_OUTCOMES], days)
        return self._warehouse.rows(gold.EVENT_OUTCOMES, days, None, IS_SCAN_LIFE)

    def _hold(self, tables: Sequence[Table], days: Collection[dt.date]) -> None:
        """Compare published rows of some days with the ledger, except days of gold tables that this run makes anew.

        That includes the intervals at the ends of days that this run has replayed.
        """
        for table in tables:
            self._warehouse.hold([table], {*days} - (self.replayed if table.layer != "bronze" else set()))

    def _held(self, tables: Sequence[Table], days: Collection[dt.date]) -> Files:
        """Return the files of other days than the replayed one, compared with the ledger."""
        self._hold(tables, days)
        return files_of(self._warehouse, tables, days)

    def _first_seen(self, name: str) -> int | None:
        """Return the position of a name server's first recorded event."""
        events = {table.name for table in bronze.EVENT_TABLES}
        days = {cut.day for cut in self._slices() if cut.namesrv_id == name and cut.table in events and cut.day}
        own, first = pc.field("namesrv_id") == name, [min(days)] if days else []
        self._hold(bronze.EVENT_TABLES, first)
        rows = (self._warehouse.rows(table, first, ["seq"], own)["seq"] for table in bronze.EVENT_TABLES)
        return min((seq for seqs in rows if (seq := pc.min(seqs).as_py()) is not None), default=None)

    def _is_as_published(self, day: dt.date) -> bool:
        """Return whether a replayed day, and what is open at its end, has the rows that were published."""
        found, in_force = self._written(day), self._warehouse.slices_in_force([day])
        known = {cut: digest for cut, digest in in_force.items() if TABLES[cut.table].layer != "bronze"}
        files = files_of(self._warehouse, gold.INTERVAL_TABLES, [day], published=True)
        for table in gold.INTERVAL_TABLES:
            for name in sorted({cut.namesrv_id for cut in (*found, *known) if cut.namesrv_id is not None}):
                rows = stored(table, files.of(name).on(table, day, still=True))
                known |= slices_of(table.name, conformed(rows, table))
        return not differing(found, known)

    def _unread(self) -> dict[str, list[tuple[int, int | None]]]:
        """Return begin and end of connections that cannot be read, by name server (see `VerifyInput`)."""
        self._warehouse.hold([bronze.QUARANTINE])
        is_tls = (pc.field("reason") == Reason.TLS.value) & pc.field("namesrv_id").is_valid()
        seen = self._warehouse.rows(bronze.QUARANTINE, None, ["namesrv_id", "channel_id", "event_time"], is_tls)
        found: dict[str, list[tuple[int, int | None]]] = {}
        if not seen.num_rows:
            return found
        self._warehouse.hold([bronze.CHANNEL_EVENTS])
        named = pc.field("channel_id").isin(seen["channel_id"].combine_chunks())
        ends = self._warehouse.rows(bronze.CHANNEL_EVENTS, None, ["channel_id", "event_time"], named)
        for span in ask(_UNREAD, {"seen": seen, "ends": ends}).to_pylist():
            found.setdefault(span["namesrv_id"], []).append((span["from_us"], span["until_us"]))
        return found


def grouped(work: Iterable[tuple[T, int]], width: int) -> list[tuple[T, ...]]:
    """Return work, given with row counts, in groups of neighbours: a task each, where `width` tasks run at once.

    A group has at most `_ROWS_PER_TASK` rows, not counting its last piece.
    """
    pieces = [(one, rows + 1) for one, rows in work]
    total = sum(rows for _, rows in pieces)
    count = max(width, -(-total // _ROWS_PER_TASK))
    groups: dict[int, list[T]] = {}
    for (one, _), before in zip(pieces, accumulate((rows for _, rows in pieces), initial=0), strict=False):
        groups.setdefault(before * count // total, []).append(one)
    return [tuple(group) for group in groups.values()]

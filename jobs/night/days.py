"""Which days a night recomputes, and from what it may start.

Days are recomputed that have rows which no published run covers, that were asked for, or on which more is known now of what
came after. A run starts from what was published.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from jobs import __version__
from jobs.errors import MissingDayError
from jobs.night.work import files_of
from jobs.store.ledger import ReadFile, days_of
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_core.machine.instants import US_PER_MS
from namesrv_day.arrow.digest import Digest, Slice
from namesrv_day.arrow.rows import rows_of
from schemas import bronze, gold
from schemas.times import day_of, day_start_us

_ONE_DAY = dt.timedelta(days=1)
_INTERVALS = frozenset(table.name for table in gold.INTERVAL_TABLES)
_RECORDED = frozenset(table.name for table in bronze.RECORDED_TABLES)
# No lease of a broker is meant to be longer than thirty years.
_LONGEST_LEASE_MS = 10**12


@dataclass(frozen=True, slots=True)
class Days:
    """What a night has to do: `wanted` days of all that are `recorded`, and what it will be the first to cover.

    `touched`: those of the days with rows that no published run covers; `asked`: those that somebody asked for.
    """

    wanted: list[dt.date]
    recorded: list[dt.date]
    touched: frozenset[dt.date]
    ingest_runs: list[str]
    sources: list[str]
    asked: frozenset[dt.date] = frozenset()


def days_to_do(warehouse: Warehouse, asked: Collection[dt.date] = ()) -> Days:
    """Return what is to be done: nothing, if every source is covered and no day was asked for.

    With another configuration or version of this software than last time, every day is recomputed.
    """
    read, ledger = warehouse.recorded(), warehouse.ledger()
    left = [source for source in read if source.ingest_run not in ledger.covered]
    recorded = days_of(read)
    touched = frozenset(day for source in left for day in source.days)
    last = ledger.last
    changed = last is not None and (last.config_sha256, last.code_version) != (warehouse.conf.sha256, __version__)
    wanted = set(recorded) if changed else touched | set(asked)
    ingest_runs = sorted({source.ingest_run for source in left})
    wanted |= _rescheduled(warehouse, touched, ingest_runs, recorded)
    wanted |= _reopened(warehouse, sorted(wanted), recorded)
    sources = sorted(source.sha256 for source in left)
    return Days(sorted(wanted), recorded, touched, ingest_runs, sources, frozenset(asked))


def asked_days(read: Iterable[ReadFile], first: dt.date | None, last: dt.date | None) -> list[dt.date]:
    """Return the recorded days from `first` to `last`. Raises MissingDayError if one of these has no rows, or none has."""
    days = days_of(read)
    missing = [day.isoformat() for day in (first, last) if day is not None and day not in days]
    if missing or not days:
        known = f"recorded are {len(days)} day(s), {days[0]} to {days[-1]}" if days else "nothing is recorded at all"
        raise MissingDayError(f"nothing is recorded on {' and on '.join(missing) or 'any day'}; {known}")
    return [day for day in days if (first is None or day >= first) and (last is None or day <= last)]


def before(day: dt.date, recorded: Sequence[dt.date]) -> dt.date | None:
    """Return the last recorded day before `day`; `recorded` are in order."""
    place = bisect_left(recorded, day)
    return recorded[place - 1] if place else None


def _rescheduled(
    warehouse: Warehouse, touched: Collection[dt.date], ingest_runs: Collection[str], recorded: Sequence[dt.date]
) -> set[dt.date]:
    """Return the days after late events that tell when scans tick on them: that is not seen in the rows which days hand on.

    Those are starts of a name server, and its first events. A phase that closes tell is handed on.
    """
    published = warehouse.ledger().days
    late = [day for day in touched if published and day < max(published)]
    if not late:
        return set()
    is_late = pc.field("ingest_run").isin(sorted(ingest_runs))
    first: dict[str, dt.date] = {}
    for name, day in heard_in(warehouse.slices_in_force()):
        first[name] = min(day, first.get(name, day))
    telling: set[dt.date] = set()
    for table in bronze.RECORDED_TABLES:
        rows = warehouse.rows(table, late, ["namesrv_id", "day"], is_late)
        for row in rows_of(rows.group_by(["namesrv_id", "day"]).aggregate([])):
            if table is bronze.NAMESRV_EVENTS or row["day"] <= first.get(row["namesrv_id"], dt.date.max):
                telling.add(row["day"])
    return {day for day in recorded if telling and day > min(telling)}


def _reopened(warehouse: Warehouse, wanted: Sequence[dt.date], recorded: Sequence[dt.date]) -> set[dt.date]:
    """Return published days that end otherwise, now that it is known that their name servers went on.

    A lease that ended after the last event of a day was left open: nobody knew whether a scan followed.
    """
    ends = {end for day in wanted if (end := before(day, recorded)) is not None and end not in wanted}
    # By name server the day on which the first lease ended that had run out when one of `ends` was over.
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
    heard = heard_in(warehouse.slices_in_force())
    went_on = {name for day in wanted for name in warehouse.namesrvs_on(day)}
    reopened: set[dt.date] = set()
    for name, since in overdue.items():
        if name in went_on:
            # While a name server was heard of later, scans ran to the end of each day.
            last = max((day for of, day in heard if of == name and day <= max(ends)), default=max(ends))
            reopened |= {day for day in recorded if max(since, last) <= day <= max(ends)}
    return reopened - set(wanted)


def starting_slices(warehouse: Warehouse, days: Days) -> dict[Slice, Digest]:
    """Return the gold slices from which the night starts, as the ledger has them."""
    starts = {start for day in days.wanted if (start := before(day, days.recorded)) is not None} - set(days.wanted)
    published = warehouse.ledger().days
    starts &= published
    if not starts:
        return {}
    gold_names = {table.name for table in DATA_TABLES}
    in_force = warehouse.slices_in_force({None, *(day for day in published if day >= min(starts))})
    return {cut: digest for cut, digest in in_force.items() if cut.table in gold_names and is_start(cut, starts)}


def is_start(cut: Slice, starts: Collection[dt.date]) -> bool:
    """Return whether a gold slice tells how one of some days ended: of intervals what was there on it, or later."""
    if cut.table in _INTERVALS:
        return cut.day is None or cut.day >= min(starts)
    return cut.day in starts


# -- holes -----------------------------------------------------------------------------------------------------------


def holes(inputs: Iterable[Slice], known: Callable[[Collection[dt.date] | None], Iterable[Slice]]) -> list[str]:
    """Return a sentence for each stretch of days on which nothing of a name server is recorded, between days that are.

    `inputs`: bronze slices that a run read; `known`: gives those that the ledger has of some days, or of all (None).
    """
    fresh = heard_in(inputs)
    eves = {(namesrv_id, day - _ONE_DAY) for namesrv_id, day in fresh} - fresh
    if not eves - heard_in(known({day for _, day in eves})):
        return []
    seen = fresh | heard_in(known(None))
    found = []
    for namesrv_id, eve in sorted(eves - seen):
        earlier = max((day for name, day in seen if name == namesrv_id and day < eve), default=None)
        if earlier is not None:
            first = earlier + _ONE_DAY
            stretch = f"{eve}" if first == eve else f"{first} to {eve}"
            found.append(
                f"hole: nothing of {namesrv_id} is recorded on {stretch}, but on {earlier} and {eve + _ONE_DAY}"
            )
    return found


def heard_in(cuts: Iterable[Slice]) -> set[tuple[str, dt.date]]:
    """Return the name servers and days that slices of recorded events show."""
    return {(cut.namesrv_id, cut.day) for cut in cuts if cut.table in _RECORDED and cut.namesrv_id and cut.day}

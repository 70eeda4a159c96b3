"""Which days a night recomputes, and from what it may start.

Days are recomputed that have rows which no published run covers, that were asked for, or on which more is known now of what
came after. A run starts from what was published: what an interrupted or refused one left in gold tables is taken back.
"""

from __future__ import annotations

import datetime as dt
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from jobs import __version__, tables
from jobs.digest import Digest
from jobs.ledger import Run, TamperedError, digests_of, require_readable, require_same, slices_in_force
from jobs.tables import Slice, of_days, union_all
from jobs.warehouse import DATA_TABLES, WRITTEN_TABLES, Recorded, Warehouse, days_of, run_of
from schemas import bronze, gold
from schemas.table import Table

log = logging.getLogger(__name__)
_ONE_DAY = dt.timedelta(days=1)
_RECORDED = frozenset(table.name for table in bronze.RECORDED_TABLES)


class MissingDayError(LookupError):
    """A day was asked for on which nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a night has to do: `days` to recompute of all that are `recorded`, and what it will be the first to cover.

    `touched`: those of the days with rows that no published run covers.
    """

    days: list[dt.date]
    recorded: list[dt.date]
    touched: frozenset[dt.date]
    ingest_runs: list[str]
    sources: list[str]
    frames: int


def plan_of(house: Warehouse, asked: Collection[dt.date] = ()) -> Plan:
    """Return what is to be done: nothing, if every source is covered and no day was asked for.

    With another configuration or version of this software than last time, every day is recomputed.
    """
    read, ledger = house.recorded(), house.ledger()
    left = [source for source in read if source.ingest_run not in ledger.covered]
    days = days_of(read)
    touched = frozenset(day for source in left for day in source.days)
    last = ledger.last
    changed = last is not None and (last.config_sha256, last.code_version) != (house.conf.sha256, __version__)
    wanted = set(days) if changed else touched | set(asked)
    ingest_runs = sorted({source.ingest_run for source in left})
    wanted |= _rescheduled(house, touched, ingest_runs, days)
    wanted |= _reopened(house, sorted(wanted), days)
    return Plan(
        sorted(wanted),
        days,
        touched,
        ingest_runs,
        sorted(source.sha256 for source in left),
        sum(source.frames for source in read if source.days & wanted),
    )


def asked_days(read: Iterable[Recorded], first: dt.date | None, last: dt.date | None) -> list[dt.date]:
    """Return the recorded days from `first` to `last`. Raises MissingDayError if one of these has no rows, or none has."""
    days = days_of(read)
    missing = [day.isoformat() for day in (first, last) if day is not None and day not in days]
    if missing or not days:
        known = f"recorded are {len(days)} day(s), {days[0]} to {days[-1]}" if days else "nothing is recorded at all"
        raise MissingDayError(f"nothing is recorded on {' and on '.join(missing) or 'any day'}; {known}")
    return [day for day in days if (first is None or day >= first) and (last is None or day <= last)]


def before(day: dt.date, recorded_days: Sequence[dt.date]) -> dt.date | None:
    """Return the last recorded day before `day`; `recorded_days` are in order."""
    place = bisect_left(recorded_days, day)
    return recorded_days[place - 1] if place else None


def after(day: dt.date, recorded_days: Sequence[dt.date]) -> dt.date | None:
    """Return the first recorded day after `day`; `recorded_days` are in order."""
    place = bisect_right(recorded_days, day)
    return recorded_days[place] if place < len(recorded_days) else None


def _rescheduled(
    house: Warehouse, touched: Collection[dt.date], ingest_runs: Sequence[str], days: Sequence[dt.date]
) -> set[dt.date]:
    """Return the days after late events that tell when scans tick on them: that is not seen in the rows which days hand on.

    Those are starts of a name server, closes by it, and its first events.
    """
    published = house.ledger().days
    late = [day for day in touched if published and day < max(published)]
    if not late:
        return set()
    is_late = F.col("ingest_run").isin(list(ingest_runs)) & F.col("day").isin(late)
    closes = house.table(bronze.CHANNEL_EVENTS).where(is_late & F.expr("kind = 'close' AND closed_by = 'namesrv'"))
    telling = {row["day"] for row in _days_in([house.table(bronze.NAMESRV_EVENTS).where(is_late), closes])}
    first: dict[str, dt.date] = {}
    for name, day in _heard(slices_in_force(house.table(gold.RUNS))):
        first[name] = min(day, first.get(name, day))
    read = _days_in([house.table(table).where(is_late) for table in bronze.RECORDED_TABLES])
    telling |= {row["day"] for row in read if row["day"] <= first.get(row["namesrv_id"], dt.date.max)}
    return {day for day in days if telling and day > min(telling)}


def _days_in(frames: Iterable[DataFrame]) -> list[Row]:
    """Return the distinct (namesrv_id, day) of rows."""
    rows: list[Row] = union_all(frame.select("namesrv_id", "day") for frame in frames).distinct().collect()
    return rows


def _reopened(house: Warehouse, wanted: Sequence[dt.date], days: Sequence[dt.date]) -> set[dt.date]:
    """Return published days that end otherwise, now that it is known that their name servers went on.

    A lease that ended after the last event of a day was left open: nobody knew whether a scan followed.
    """
    ends = {end for day in wanted if (end := before(day, days)) is not None and end not in wanted}
    if not ends:
        return set()
    midnight = F.date_add("day", 1).cast("timestamp")
    # No lease of a broker is meant to be longer than thirty years; one that is must not overflow.
    lease_end = F.expr(
        "timestamp_micros(unix_micros(last_update_time) + least(heartbeat_timeout_ms, 1000000000000) * 1000)"
    )
    overdue = (
        of_days(house.published(gold.BROKER_LIVE_HISTORY), ends)
        .where(F.col("closed_by").isNull() & (lease_end < midnight))
        .groupBy("namesrv_id")
        .agg(F.min(lease_end.cast("date")).alias("since"))
        .collect()
    )
    if not overdue:
        return set()
    went_on = _heard_on(house, wanted, [row["namesrv_id"] for row in overdue])
    heard = _heard(slices_in_force(house.table(gold.RUNS)))
    reopened: set[dt.date] = set()
    for row in overdue:
        if row["namesrv_id"] in went_on:
            # While a name server was heard of later, scans ran to the end of each day.
            last = max(
                (day for name, day in heard if name == row["namesrv_id"] and day <= max(ends)), default=max(ends)
            )
            reopened |= {day for day in days if max(row["since"], last) <= day <= max(ends)}
    return reopened - set(wanted)


def _heard_on(house: Warehouse, days: Collection[dt.date], namesrvs: Collection[str]) -> set[str]:
    """Return those of `namesrvs` of which something is recorded on one of `days`."""
    named = F.col("namesrv_id").isin(list(namesrvs))
    rows = union_all(
        of_days(house.table(table), days).where(named).select("namesrv_id") for table in bronze.RECORDED_TABLES
    )
    return {row["namesrv_id"] for row in rows.distinct().collect()}


# -- what a run starts from ------------------------------------------------------------------------------------------


def take_back(house: Warehouse) -> None:
    """Make gold tables again what was published, if an interrupted or refused run has left something in them.

    Raises TamperedError, before anything is changed, where somebody else has written to a table.
    """
    tables.remove(house.spark, f"{house.path}/_staging")
    last = house.ledger().last
    if last is None:
        return
    current = {table: tables.version_of(house.spark, house.path, table) for table in WRITTEN_TABLES}
    moved = [table for table in WRITTEN_TABLES if current[table] != last.versions.get(table.name, current[table])]
    by_us = tables.in_parallel({t.name: partial(_left_by_us, house, t, last, current[t]) for t in moved})
    left = {t.name: last.versions[t.name] for t in moved if by_us[t.name] and t in DATA_TABLES}
    if left:
        log.warning("taken back, since no run has published it: %s", ", ".join(sorted(left)))
    work = {t.name: partial(tables.restore, house.spark, house.path, t, left[t.name]) for t in moved if t.name in left}
    tables.in_parallel(work)
    house.forget(*moved)


def _left_by_us(house: Warehouse, table: Table, last: Run, version: int | None) -> bool:
    """Return whether a run of ours has changed rows of `table` since `last`. Raises TamperedError if somebody else has."""
    pinned = last.versions[table.name]
    if version is None or version < pinned:
        raise TamperedError(f"{table.name}: the ledger pins version {pinned}, but the table is at {version}")
    commits = tables.commits_after(house.spark, house.path, table, pinned)
    foreign = [commit for commit in commits if run_of(commit) is None]
    if foreign and "day" in table.column_names:
        _require_published(house, table, min(commit["version"] for commit in foreign))
    return bool(commits)


def _require_published(house: Warehouse, table: Table, foreign: int) -> None:
    """Raise TamperedError if published slices of `table` are not what the ledger says. Days with new rows are not judged.

    `foreign`: the first version that is not ours.
    """
    new = {day for source in house.recorded() if source.ingest_run not in house.ledger().covered for day in source.days}
    days = house.ledger().days - (new if table in bronze.TABLES else set())
    expected = {c: d for c, d in slices_in_force(house.table(gold.RUNS), days).items() if c.table == table.name}
    with require_readable(table.name):
        found = digests_of({table.name: house.table(table)}, days)
    restore = f"RESTORE TABLE delta.`{tables.table_path(house.path, table)}` TO VERSION AS OF {foreign - 1}"
    require_same(found, expected, f"Version {foreign} of the table is not ours; take it back with `sql`: {restore}")


def starting_slices(house: Warehouse, plan: Plan) -> dict[Slice, Digest]:
    """Return the gold slices from which the night starts. Raises TamperedError if they are not what was published."""
    starts = {start for day in plan.days if (start := before(day, plan.recorded)) is not None} - set(plan.days)
    starts &= house.ledger().days
    if not starts:
        return {}
    gold_names = {table.name for table in DATA_TABLES}
    in_force = slices_in_force(house.table(gold.RUNS), starts)
    expected = {cut: digest for cut, digest in in_force.items() if cut.table in gold_names}
    with require_readable(f"gold slices of {', '.join(map(str, sorted(starts)))}"):
        found = digests_of(house.slices(DATA_TABLES, starts), starts)
    require_same(found, expected)
    return found


# -- holes -----------------------------------------------------------------------------------------------------------


def holes(inputs: Iterable[Slice], known: Callable[[Collection[dt.date] | None], Iterable[Slice]]) -> list[str]:
    """Return a sentence for each stretch of days on which nothing of a name server is recorded, between days that are.

    `inputs`: bronze slices that a run read; `known`: gives those that the ledger has of some days, or of all (None).
    """
    fresh = _heard(inputs)
    eves = {(namesrv_id, day - _ONE_DAY) for namesrv_id, day in fresh} - fresh
    if not eves - _heard(known({day for _, day in eves})):
        return []
    seen = fresh | _heard(known(None))
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


def _heard(cuts: Iterable[Slice]) -> set[tuple[str, dt.date]]:
    """Return the name servers and days that slices of recorded events show."""
    return {(cut.namesrv_id, cut.day) for cut in cuts if cut.table in _RECORDED and cut.namesrv_id is not None}

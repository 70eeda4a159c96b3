"""Replay one day: weigh what is known of the settings, plan what has to be replayed, replay it and write its slices.

Reads   the bronze event tables and answers, and the history slices of the last day before
Writes  the day's slices of the replayed tables, namesrv_settings and order_decisions
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import tables
from jobs.contexts import known_until, namesrv_days
from jobs.day_plan import Unit, planned_day
from jobs.evidence import DELETION, IDLE_LIMIT, candidates_from, votes_from, weighed_from
from jobs.frames import Frames
from jobs.order import decided_day
from jobs.quiet import Heard, heard_of
from jobs.replay import NOT_QUIET, REPLAYED_TABLES, not_quiet_of, replayed_day, rows_by_table, table_from
from jobs.replay_unit import NamesrvDay
from jobs.session import tuned_for
from jobs.settings import DaySettings, known_settings, under_idle_limit
from jobs.slices import held
from jobs.warehouse import Warehouse, days_of
from schemas import bronze, gold, times
from schemas.table import Table

log = logging.getLogger(__name__)
_CARRIED = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.PAST_KNOWLEDGE)
# What tells whether a name server's periodic scan still runs.
SCAN_LIFE = "outcome IN ('scan_failed', 'started', 'stopped')"
_ONE_DAY, _LONG_SILENCE = dt.timedelta(days=1), dt.timedelta(days=7)
_EPOCH = dt.date(1970, 1, 1)
# Of heartbeats there are too many to be held; they are read as often as need be.
_HELD = tuple(table for table in bronze.RECORDED_TABLES if table is not bronze.HEARTBEATS)


class _Given(NamedTuple):
    """What a day's replay starts from: the bronze tables, their slices of the day, what is carried, and rows by table."""

    day: dt.date
    bronze: Frames
    today: Frames
    carried: Frames
    rows: Mapping[str, int]


def replay_day(house: Warehouse, day: dt.date) -> list[dt.date]:
    """Replay a day. If earlier days must be replayed before, only note its settings, and return those days."""
    tables.checkpoints_in(house.spark, f"{house.path}/_staging/{house.run_id}-checkpoints")
    start = _start_of(house, day)
    given = _given(house, day, start)
    known = known_settings(given.today, house.table(gold.NAMESRV_SETTINGS), day, start, house.conf)
    live = given.carried[gold.BROKER_LIVE_HISTORY.name].where("closed_by IS NULL")
    heard = heard_of(given.today, live, day, known.namesrvs) if house.quiet_road else None
    with _tuned_for(house, given, None if heard is None else heard.rows):
        until = known_until(given.today, day, heard, house.going_on(known.known, day))
        known = known.with_votes(votes_from(given.today, given.carried, known))
        known, frames, contexts = _settled(house, given, known, until)
        work = {"namesrv_settings": _writing(house, known.frame(house.spark), gold.NAMESRV_SETTINGS, day)}
        since_seq = known.reconsidered_since
        if since_seq is not None:
            earlier = [d for d in days_of(house.recorded(), first=times.day_of(since_seq // 1_000)) if d < day]
            if earlier:
                tables.in_parallel(work)
                return earlier
        work.update(_replayed(house, given._replace(today=frames), contexts, heard))
        tables.in_parallel(work)
    tables.remove(house.spark, _staging_of(house))
    house.spark.catalog.clearCache()
    return []


def _tuned_for(house: Warehouse, given: _Given, beats: int | None) -> AbstractContextManager[None]:
    """Return the setting for a day of which so many rows of beats are left; None: as the session is set."""
    return nullcontext() if beats is None else tuned_for(house.spark, sum(given.rows.values()) + beats)


def _given(house: Warehouse, day: dt.date, start: dt.date | None) -> _Given:
    raw, carried = house.slices(bronze.TABLES, [day]), _carried(house, day, start)
    slices = {table.name: raw[table.name] for table in _HELD}
    frames, rows = held(house.spark, {**slices, **carried})
    today = {**raw, **{name: frames[name] for name in slices}}
    return _Given(day, house.bronze(), today, {name: frames[name] for name in carried}, rows)


def _replayed(
    house: Warehouse, given: _Given, contexts: dict[str, NamesrvDay], heard: Heard | None
) -> dict[str, Callable[[], None]]:
    """Replay the day into Parquet files; return what is to be done to write its slices."""
    spark, day, folder = house.spark, given.day, _staging_of(house)
    not_quiet: set[Unit] = set()
    while True:
        plan = planned_day(spark, given.today, given.carried, day, contexts, heard=heard, not_quiet=not_quiet)
        with _tuned_for(house, given, plan.beats):
            plan = replace(plan, events=tables.cut_short(plan.events))
            decisions, order = decided_day(spark, plan.events, given.today, given.carried, day, contexts)
            wide = replayed_day(plan, given.today["topic_configs"], contexts, order)
            wide.write.mode("overwrite").parquet(folder)
        staged = spark.read.schema(wide.schema).parquet(folder)
        rows = rows_by_table(staged)
        if NOT_QUIET not in rows:
            break
        found = not_quiet_of(staged)
        log.warning("%s: %d units are not as quiet as their heartbeats look; replayed one by one", day, len(found))
        not_quiet |= found
    work = {"order_decisions": _writing(house, decisions, gold.ORDER_DECISIONS, day, may_be_empty=order is None)}
    for table in REPLAYED_TABLES:
        kept = given.rows.get(table.name, 0) if plan.quiet is not None else 0
        expected = rows.get(table.name, 0) + kept
        none = not expected and table is not gold.REFRESHES_HOURLY
        frame = table_from(staged, plan, table, day)
        work[table.name] = _writing(house, frame, table, day, may_be_empty=none, rows=expected)
    return work


def _staging_of(house: Warehouse) -> str:
    return f"{house.path}/_staging/{house.run_id}-replay"


def _settled(
    house: Warehouse, given: _Given, known: DaySettings, until: Mapping[str, int]
) -> tuple[DaySettings, dict[str, DataFrame], dict[str, NamesrvDay]]:
    """Return what is known after weighing what only a replay tells, the events as they follow, and the days' contexts."""
    today, carried = given.today, given.carried
    # Answers alone tell which of two replays is right.
    candidates = candidates_from(today, known) if given.rows[bronze.ROUTE_OBSERVATIONS.name] else {}
    frames, contexts = _under(house, given, known, until)
    if IDLE_LIMIT in candidates:
        votes = weighed_from(IDLE_LIMIT, candidates[IDLE_LIMIT], today, carried, known, contexts)
        known = known.with_votes(votes)
        frames, contexts = _under(house, given, known, until)
    if DELETION in candidates:
        votes = weighed_from(DELETION, candidates[DELETION], frames, carried, known, contexts)
        known = known.with_votes(votes)
    namesrvs = known.namesrvs
    return known, frames, {name: replace(context, namesrv=namesrvs[name]) for name, context in contexts.items()}


def _under(
    house: Warehouse, given: _Given, known: DaySettings, until: Mapping[str, int]
) -> tuple[dict[str, DataFrame], dict[str, NamesrvDay]]:
    today, ever = (
        {**frames, "channel_events": under_idle_limit(frames["channel_events"], house.spark, known)}
        for frames in (given.today, given.bronze)
    )
    return today, namesrv_days(ever, given.carried, known.day, known.namesrvs, until)


def _writing(
    house: Warehouse, frame: DataFrame, table: Table, day: dt.date, *, may_be_empty: bool = False, rows: int = 0
) -> Callable[[], None]:
    """Return what writes a slice of about so many rows; nothing where there are no rows and have been none."""
    if may_be_empty and house.is_without(table, day):
        return lambda: None
    return partial(house.write, frame, table, day, rows=rows)


def _start_of(house: Warehouse, day: dt.date) -> dt.date | None:
    """Return the last day before `day` that was replayed; every name server's state is carried through each such day."""
    # Mostly it is the day before; the whole of the table is looked through only after a long silence.
    return _last_day(house, day - _LONG_SILENCE, day) or _last_day(house, _EPOCH, day)


def _last_day(house: Warehouse, since: dt.date, until: dt.date) -> dt.date | None:
    """Return the last day from `since` on and before `until` that was replayed: each has settings of a name server."""
    between = (F.col("day") >= F.lit(since)) & (F.col("day") < F.lit(until))
    row = house.table(gold.NAMESRV_SETTINGS).where(between).agg(F.max("day").alias("day")).collect()[0]
    found: dt.date | None = row["day"]
    return found


def _carried(house: Warehouse, day: dt.date, start: dt.date | None) -> dict[str, DataFrame]:
    """Return the slices of `start`, from which `day` starts."""
    if start is None:
        return {table.name: tables.empty(house.spark, table.schema) for table in _CARRIED}
    sliced = house.slices(_CARRIED, [start])
    # What ended a scan for good may have happened on any day before, and so what began another; the ledger knows the days.
    ledger = house.ledger()
    unpublished = {d for d in days_of(house.recorded()) if d not in ledger.days} | house.replayed
    failed = min((d for d in ledger.halting_days if d < day), default=day)
    scan_days = sorted(d for d in ledger.scan_days if failed <= d < day)
    when = F.col("day").between(min({start, *unpublished}), day - _ONE_DAY) | F.col("day").isin(scan_days)
    sliced[gold.EVENT_OUTCOMES.name] = house.table(gold.EVENT_OUTCOMES).where(when).where(SCAN_LIFE)
    return sliced

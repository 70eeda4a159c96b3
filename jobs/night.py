"""The steps of a night that make gold tables, each of which can also be run alone.

ingest -> validate -> replay -> flag -> verify -> publish. A step reads what the one before has written; readers see nothing of it
until the run's row is in the ledger, `runs`.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import tables
from jobs.contexts import known_until, namesrv_days
from jobs.day_plan import DayPlan, Unit, planned_day
from jobs.evidence import DELETION, IDLE_LIMIT, candidates_from, votes_from, weighed_from
from jobs.flag import flag
from jobs.order import decided_day
from jobs.plan import after
from jobs.quiet import Heard, heard_of
from jobs.replay import REPLAYED_TABLES, not_quiet_of, replayed_day, table_from
from jobs.replay_unit import NamesrvDay
from jobs.settings import DaySettings, known_settings, under_idle_limit
from jobs.tables import of_days
from jobs.verify import (
    answer_checks_from,
    explained_answers_from,
    judged_from,
    responses_of,
    route_mismatches_from,
    verdicts_from,
)
from jobs.warehouse import Warehouse, days_of
from schemas import bronze, codec, gold
from schemas.table import Table

log = logging.getLogger(__name__)
_FLAGGED = (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS)
_CARRIED = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.PAST_KNOWLEDGE)
# What tells whether a name server's periodic scan still runs.
_SCAN_LIFE = "outcome IN ('scan_failed', 'started', 'stopped')"
# What the replay, and the flags, of a day take over from the day before.
_ENDS = {
    **dict.fromkeys(gold.HISTORY_TABLES, "closed_by IS NULL"),
    gold.PAST_KNOWLEDGE: "true",
    gold.NAMESRV_SETTINGS: "true",
    gold.EVENT_OUTCOMES: _SCAN_LIFE,
}
_FLAG_ENDS = {gold.ORPHANED_TOPICS: "closed_by IS NULL"}
_ONE_DAY, _LONG_SILENCE = dt.timedelta(days=1), dt.timedelta(days=7)
_EPOCH = dt.date(1970, 1, 1)


def replay(house: Warehouse, days: Sequence[dt.date], may_follow: Sequence[dt.date] = ()) -> list[dt.date]:
    """Replay `days` in order and write their slices of the replayed tables; return the days that were replayed.

    They are more than `days` where one of them shows how a name server was configured since its process started, and
    earlier days had been replayed otherwise: those are replayed again, with what is known now. A day of `may_follow` is
    replayed if the day before it ends otherwise than it was published.
    """
    pending, done = sorted(days), set[dt.date]()
    while pending:
        day = pending.pop(0)
        earlier = _replay_day(house, day)
        if earlier:
            pending = sorted({day, *earlier, *pending})
            continue
        done.add(day)
        house.replayed.add(day)
        following = after(day, may_follow)
        if following is not None and following not in pending and _ends_otherwise(house, day, _ENDS):
            pending = sorted({following, *pending})
    return sorted(done)


def _ends_otherwise(house: Warehouse, day: dt.date, what: Mapping[Table, str]) -> bool:
    """Return whether that of `day` from which the next one starts differs from what was published."""
    if day not in house.ledger().days:
        return True
    ends = {
        f"{when} {table.name}": of_days(read(table), [day]).where(condition)
        for when, read in (("now", house.table), ("then", house.published))
        for table, condition in what.items()
    }
    digests = tables.digests(ends)
    return any(digests[f"now {table.name}"] != digests[f"then {table.name}"] for table in what)


def _replay_day(house: Warehouse, day: dt.date) -> list[dt.date]:
    """Replay a day. If earlier days must be replayed before, only note its settings, and return those days."""
    start = _start_of(house, day)
    carried = _carried(house, day, start)
    raw = house.bronze()
    known = known_settings(raw, house.table(gold.NAMESRV_SETTINGS), day, start, house.conf)
    live = carried[gold.BROKER_LIVE_HISTORY.name].where("closed_by IS NULL")
    heard = heard_of(raw, live, day, known.namesrvs) if house.quiet_road else None
    until = known_until(raw, day, heard)
    known = known.with_votes(votes_from(raw, carried, known))
    known, frames, contexts = _settled(house, raw, carried, known, until)
    work = {"namesrv_settings": _writing(house, known.frame(house.spark), gold.NAMESRV_SETTINGS, day)}
    since_seq = known.reconsidered_since
    if since_seq is not None:
        earlier = [d for d in days_of(house.recorded(), first=codec.day_of(since_seq // 1_000)) if d < day]
        if earlier:
            tables.in_parallel(work)
            house.forget(gold.NAMESRV_SETTINGS)
            return earlier
    staged, plan, decisions = _staged_replay(house, frames, carried, day, contexts, heard)
    work.update({t.name: _writing(house, table_from(staged, plan, t, day), t, day) for t in REPLAYED_TABLES})
    work["order_decisions"] = _writing(house, decisions, gold.ORDER_DECISIONS, day)
    tables.in_parallel(work)
    tables.remove(house.spark, _staging_of(house))
    house.spark.catalog.clearCache()
    house.forget(*REPLAYED_TABLES, gold.ORDER_DECISIONS, gold.NAMESRV_SETTINGS)
    return []


def _staged_replay(
    house: Warehouse,
    frames: dict[str, DataFrame],
    carried: dict[str, DataFrame],
    day: dt.date,
    contexts: dict[str, NamesrvDay],
    heard: Heard | None,
) -> tuple[DataFrame, DayPlan, DataFrame]:
    """Replay the day into Parquet files; return them, the plan they follow, and the order decisions."""
    folder = _staging_of(house)
    not_quiet: set[Unit] = set()
    while True:
        plan = planned_day(house.spark, frames, carried, day, contexts, heard=heard, not_quiet=not_quiet)
        decisions, order = decided_day(house.spark, plan.events, frames, carried, day, contexts)
        wide = replayed_day(plan, frames["topic_configs"], contexts, order)
        wide.write.mode("overwrite").parquet(folder)
        staged = house.spark.read.parquet(folder)
        found = not_quiet_of(staged) if plan.quiet is not None else set()
        if not found:
            return staged, plan, decisions
        log.warning("%s: %d units are not as quiet as their heartbeats look; replayed one by one", day, len(found))
        not_quiet |= found


def _staging_of(house: Warehouse) -> str:
    return f"{house.path}/_staging/{house.run_id}-replay"


def _settled(
    house: Warehouse,
    raw: dict[str, DataFrame],
    carried: dict[str, DataFrame],
    known: DaySettings,
    until: Mapping[str, int],
) -> tuple[DaySettings, dict[str, DataFrame], dict[str, NamesrvDay]]:
    """Return what is known after weighing what only a replay tells, the events as they follow, and the days' contexts."""
    candidates = candidates_from(raw, known)
    frames, contexts = _under(house, raw, carried, known, until)
    if IDLE_LIMIT in candidates:
        votes = weighed_from(IDLE_LIMIT, candidates[IDLE_LIMIT], raw, carried, known, contexts)
        known = known.with_votes(votes)
        frames, contexts = _under(house, raw, carried, known, until)
    if DELETION in candidates:
        votes = weighed_from(DELETION, candidates[DELETION], frames, carried, known, contexts)
        known = known.with_votes(votes)
    namesrvs = known.namesrvs
    return known, frames, {name: replace(context, namesrv=namesrvs[name]) for name, context in contexts.items()}


def _under(
    house: Warehouse,
    raw: dict[str, DataFrame],
    carried: dict[str, DataFrame],
    known: DaySettings,
    until: Mapping[str, int],
) -> tuple[dict[str, DataFrame], dict[str, NamesrvDay]]:
    frames = {**raw, "channel_events": under_idle_limit(raw["channel_events"], house.spark, known)}
    return frames, namesrv_days(frames, carried, known.day, known.namesrvs, until)


def _writing(house: Warehouse, frame: DataFrame, table: Table, day: dt.date) -> Callable[[], None]:
    return partial(tables.write_days, frame, house.path, table, [day])


def _start_of(house: Warehouse, day: dt.date) -> dt.date | None:
    """Return the last day before `day` that was replayed; every name server's state is carried through each such day."""
    # Mostly it is the day before; the whole of the tables is looked through only after a long silence.
    return _last_day(house, day - _LONG_SILENCE, day) or _last_day(house, _EPOCH, day)


def _last_day(house: Warehouse, since: dt.date, until: dt.date) -> dt.date | None:
    """Return the last day from `since` on and before `until` that was replayed."""
    last = tables.union_all(
        house.table(table)
        .where((F.col("day") >= F.lit(since)) & (F.col("day") < F.lit(until)))
        .agg(F.max("day").alias("day"))
        for table in (*_CARRIED, gold.NAMESRV_SETTINGS)
    )
    return max((row["day"] for row in last.collect() if row["day"] is not None), default=None)


def _carried(house: Warehouse, day: dt.date, start: dt.date | None) -> dict[str, DataFrame]:
    """Return the slices of `start`, from which `day` starts."""
    frames = {table.name: house.table(table) for table in _CARRIED}
    if start is None:
        return {name: frame.where("false") for name, frame in frames.items()}
    sliced = {name: of_days(frame, [start]) for name, frame in frames.items()}
    # What ended the scan for good may have happened on any day before; the ledger knows the days on which it did.
    ledger = house.ledger()
    unpublished = {d for d in days_of(house.recorded()) if d not in ledger.days} | house.replayed
    failed = max((d for d in ledger.halting_days if d < day), default=start)
    since = min({start, failed, *unpublished})
    outcomes = frames[gold.EVENT_OUTCOMES.name]
    sliced[gold.EVENT_OUTCOMES.name] = outcomes.where(F.col("day").between(since, day - _ONE_DAY)).where(_SCAN_LIFE)
    return sliced


def flag_days(house: Warehouse, days: Sequence[dt.date], may_follow: Sequence[dt.date] = ()) -> list[dt.date]:
    """Write route_changes, expired_brokers, orphaned_topics and findings of `days`; return the days that were flagged.

    A day of `may_follow` is flagged too if other topics are orphaned at the end of the day before it than was published.
    """
    pending, done = sorted(days), list[dt.date]()
    while pending:
        day = pending.pop(0)
        flagged = flag(house.spark, house.data(), house.bronze(), house.namesrvs(day), [day])
        tables.in_parallel(
            {t.name: partial(tables.write_days, flagged[t.name], house.path, t, [day]) for t in _FLAGGED}
        )
        house.spark.catalog.clearCache()
        house.forget(*_FLAGGED)
        done.append(day)
        following = after(day, may_follow)
        if following is not None and following not in pending and _ends_otherwise(house, day, _FLAG_ENDS):
            pending.insert(0, following)
    return done


def verify_days(house: Warehouse, days: Sequence[dt.date]) -> Sequence[dt.date]:
    """Write answer_checks and route_mismatches of `days`, and return them."""
    frames, replayed = house.bronze(), house.data()
    requests = [frames[t.name] for t in (bronze.REGISTRATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)]
    for day in days:
        arrivals = tables.union_all(
            frame.where((F.col("day") == F.lit(day)) & F.col("response_code").isNotNull()).select(
                "event_id", F.unix_micros("event_time").alias("arrival_us")
            )
            for frame in requests
        )
        observations = frames["route_observations"].where(F.col("day") == F.lit(day))
        namesrvs = house.namesrvs(day)
        responses, outcomes = responses_of(frames, day), replayed["event_outcomes"]
        verdicts = verdicts_from(replayed, outcomes, arrivals, observations, responses, day, namesrvs)
        judged = judged_from(verdicts, observations, responses, explained_answers_from(replayed, day)).persist()
        found = {gold.ANSWER_CHECKS: answer_checks_from(judged), gold.ROUTE_MISMATCHES: route_mismatches_from(judged)}
        tables.in_parallel(
            {t.name: partial(tables.write_days, rows, house.path, t, [day]) for t, rows in found.items()}
        )
        judged.unpersist()
    house.forget(gold.ANSWER_CHECKS, gold.ROUTE_MISMATCHES)
    return days

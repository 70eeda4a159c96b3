"""The steps of a night that make gold tables, each of which can also be run alone.

ingest -> validate -> replay -> flag -> verify -> publish. A step reads what the one before has written; readers see nothing of it
until the run's row is in the ledger, `runs`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import functions as F

from jobs import tables
from jobs.flag import flag, wipes_in
from jobs.plan import after
from jobs.replay_day import SCAN_LIFE, replay_day
from jobs.session import tuned_for
from jobs.slices import held
from jobs.tables import of_days
from jobs.verify import (
    answer_checks_from,
    explained_answers_from,
    judged_from,
    responses_of,
    route_mismatches_from,
    verdicts_from,
)
from jobs.warehouse import Warehouse
from schemas import bronze, gold
from schemas.table import Table

_FLAGGED = (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS)
_VERIFIED = (gold.ANSWER_CHECKS, gold.ROUTE_MISMATCHES)
# What answers are held against.
_HELD_AGAINST = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.ORDER_DECISIONS)
# What flags are made of, and of which days.
_JUDGED = (*gold.HISTORY_TABLES, gold.EVENT_OUTCOMES, gold.PAST_KNOWLEDGE, bronze.REGISTRATIONS, bronze.NAMESRV_EVENTS)
# What the replay, and the flags, of a day take over from the day before.
_ENDS = {
    **dict.fromkeys(gold.HISTORY_TABLES, "closed_by IS NULL"),
    gold.PAST_KNOWLEDGE: "true",
    gold.NAMESRV_SETTINGS: "true",
    gold.EVENT_OUTCOMES: SCAN_LIFE,
}
_LIVES = {gold.EVENT_OUTCOMES: SCAN_LIFE}
_FLAG_ENDS = {gold.ORPHANED_TOPICS: "closed_by IS NULL"}


def replay(house: Warehouse, days: Sequence[dt.date], may_follow: Sequence[dt.date] = ()) -> list[dt.date]:
    """Replay `days` in order and write their slices of the replayed tables; return the days that were replayed.

    They are more than `days` where one of them shows how a name server was configured since its process started, and
    earlier days had been replayed otherwise: those are replayed again, with what is known now. A day of `may_follow` is
    replayed if the day before it ends otherwise than it was published.
    """
    pending, done = sorted(days), set[dt.date]()
    while pending:
        day = pending.pop(0)
        earlier = replay_day(house, day)
        if earlier:
            pending = sorted({day, *earlier, *pending})
            continue
        done.add(day)
        house.replayed.add(day)
        later = [other for other in may_follow if other > day]
        if set(later[1:]) - set(pending) and _differs(house, day, _LIVES):
            pending = sorted({*later, *pending})  # whether scans go on is not told by the rows that are carried
        elif later and later[0] not in pending and _ends_otherwise(house, day, _ENDS):
            pending = sorted({later[0], *pending})
    return sorted(done)


def _ends_otherwise(house: Warehouse, day: dt.date, what: Mapping[Table, str]) -> bool:
    """Return whether that of `day` from which the next one starts differs from what was published."""
    return day not in house.ledger().days or _differs(house, day, what)


def _differs(house: Warehouse, day: dt.date, what: Mapping[Table, str]) -> bool:
    """Return whether these rows of `day` are others than those that are published, if any are."""
    ends = {
        f"{when} {table.name}": of_days(read(table), [day]).where(condition)
        for when, read in (("now", house.table), ("then", house.published))
        for table, condition in what.items()
    }
    digests = tables.digests(ends)
    return any(digests[f"now {table.name}"] != digests[f"then {table.name}"] for table in what)


def flag_days(house: Warehouse, days: Sequence[dt.date], may_follow: Sequence[dt.date] = ()) -> list[dt.date]:
    """Write route_changes, expired_brokers, orphaned_topics and findings of `days`; return the days that were flagged.

    A day of `may_follow` is flagged too if other topics are orphaned at the end of the day before it than was published.
    """
    pending, done = sorted(days), list[dt.date]()
    while pending:
        day = pending.pop(0)
        slices, rows = held(house.spark, house.slices(_JUDGED, [day]))
        with tuned_for(house.spark, sum(rows.values())):
            others = {table.name: house.table(table) for table in (gold.ORPHANED_TOPICS, bronze.TOPIC_CONFIGS_TABLE)}
            frames, wipes = {**others, **slices}, wipes_in(house.table(gold.EVENT_OUTCOMES))
            flagged = flag(house.spark, frames, frames, house.namesrvs(day), [day], wipes)
            tables.in_parallel({t.name: partial(house.write, flagged[t.name], t, day) for t in _FLAGGED})
        house.spark.catalog.clearCache()
        done.append(day)
        following = after(day, may_follow)
        if following is not None and following not in pending and _ends_otherwise(house, day, _FLAG_ENDS):
            pending.insert(0, following)
    return done


def verify_days(house: Warehouse, days: Sequence[dt.date]) -> Sequence[dt.date]:
    """Write answer_checks and route_mismatches of `days`, and return them."""
    for day in days:
        frames = house.slices(bronze.RECORDED_TABLES, [day])
        today = frames[bronze.ROUTE_OBSERVATIONS.name]
        told, rows = held(house.spark, {"observations": today, "responses": responses_of(frames, day)})
        if not any(rows.values()):
            for table in _VERIFIED:
                if not house.is_without(table, day):
                    house.write(tables.empty(house.spark, table.schema), table, day)
            continue
        requests = (frames[t.name] for t in (bronze.REGISTRATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS))
        arrivals = tables.union_all(
            frame.where(F.col("response_code").isNotNull()).select(
                "event_id", F.unix_micros("event_time").alias("arrival_us")
            )
            for frame in requests
        )
        replayed = house.slices(_HELD_AGAINST, [day])
        observations, responses = told["observations"], told["responses"]
        outcomes, namesrvs = replayed["event_outcomes"], house.namesrvs(day)
        verdicts = verdicts_from(replayed, outcomes, arrivals, observations, responses, day, namesrvs)
        judged = judged_from(verdicts, observations, responses, explained_answers_from(replayed, day)).persist()
        found = dict(zip(_VERIFIED, (answer_checks_from(judged), route_mismatches_from(judged)), strict=True))
        tables.in_parallel({t.name: partial(house.write, rows, t, day) for t, rows in found.items()})
        judged.unpersist()
    return days

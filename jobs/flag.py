"""Say what an operator should know about a day: route changes, expired brokers, orphaned topics, findings.

Reads   the slices of the days, `event_outcomes`, `registrations`, `topic_configs`
Gives   route_changes, expired_brokers, orphaned_topics, findings for the same days

Everything is SQL, but one sweep over the rows of each topic, which is `namesrv_core.history.route_history`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.flag_clocks import clock_facts_from
from jobs.flag_expired import expired_brokers_from
from jobs.flag_routes import (
    of_topic,
    of_topics,
    open_orphans_from,
    orphaned_topics_from,
    reported_rows_from,
    route_changes_from,
    route_rows_from,
    stirred_topics_from,
    swept_from,
)
from jobs.tables import conformed, cut_short, union_all
from namesrv_core.machine.profile import Namesrv
from schemas import gold as tables
from schemas.gold import EXPIRED_BROKERS, FINDINGS, ORPHANED_TOPICS, PAST_KNOWLEDGE, ROUTE_CHANGES
from schemas.views import finding_queries


def flag(
    spark: SparkSession,
    gold: Mapping[str, DataFrame],
    bronze: Mapping[str, DataFrame],
    namesrvs: Mapping[str, Namesrv],
    days: Iterable[dt.date],
    wipes: DataFrame | None = None,
) -> dict[str, DataFrame]:
    """Return `route_changes`, `expired_brokers`, `orphaned_topics` and `findings` of `days`.

    `gold`: the history tables and `event_outcomes`; `orphaned_topics`, if given, tells when what was open
    before the first day began; `past_knowledge`, if given, what was not known. `bronze`: `registrations` and
    `topic_configs`. `days` follow each other, but days without slices may be missing. `wipes`: outcomes of wipes of write
    permission on any day, if `gold` has those of `days` only. Topics are swept of which something changed, or which were
    orphaned before; the sweep runs here, once, and the rest when it is written. `spark.catalog.clearCache()` when all is
    written.
    """
    wanted = sorted(set(days))
    slices = {
        table.name: gold[table.name].where(F.col("day").isin(wanted))
        for table in (*tables.HISTORY_TABLES, tables.EVENT_OUTCOMES)
    }
    carried = (
        [open_orphans_from(gold[ORPHANED_TOPICS.name], wanted[0])] if ORPHANED_TOPICS.name in gold and wanted else []
    )
    reported = reported_rows_from(slices, bronze, wanted).persist()
    stirred = stirred_topics_from(slices, reported, carried).persist()
    rows = [*route_rows_from(of_topics(slices, stirred)), of_topic(reported, stirred), *carried]
    # Checkpoints also cut the plans short, which eighteen queries would otherwise analyse again and again.
    swept = cut_short(swept_from(rows, namesrvs))
    expired = cut_short(expired_brokers_from(slices))
    settled = None
    if PAST_KNOWLEDGE.name in gold:
        settled = settled_from(gold[PAST_KNOWLEDGE.name].where(F.col("day").isin(wanted)))
    found = {
        ROUTE_CHANGES.name: conformed(with_learned(route_changes_from(swept), slices), ROUTE_CHANGES),
        ORPHANED_TOPICS.name: conformed(
            since_settled(orphaned_topics_from(swept), settled, "valid_to"), ORPHANED_TOPICS
        ),
        EXPIRED_BROKERS.name: conformed(expired, EXPIRED_BROKERS),
    }
    if wipes is None:
        wipes = wipes_in(gold[tables.EVENT_OUTCOMES.name])
    facts = clock_facts_from(spark, bronze, wanted)
    findings = findings_from(spark, {**slices, **found, "wipes": wipes, "clock_facts": facts})
    found[FINDINGS.name] = conformed(since_settled(findings, settled, "to_time"), FINDINGS)
    return found


def wipes_in(event_outcomes: DataFrame) -> DataFrame:
    """Return the outcomes of wipes of write permission."""
    return event_outcomes.where("operation = 'wipe_write_perm'")


def settled_from(past_knowledge: DataFrame) -> DataFrame:
    """Return (namesrv_id, day, unsettled_time, settled_time) of name servers whose recording began, or went on, mid-life.

    Since `unsettled_time` something may be missing only because it is not known yet; from `settled_time` on every broker
    that is there has been heard, or a snapshot or a start has said who is there.
    """
    setting = {
        name: F.max(F.when(F.col("about") == name, F.col("number")))
        for name in ("from_ms", "longest_lease_ms", "complete_ms")
    }
    heard = setting["from_ms"] + setting["longest_lease_ms"]
    complete = F.when(setting["complete_ms"] > 0, setting["complete_ms"])
    return (
        past_knowledge.where("what = 'setting'")
        .groupBy("namesrv_id", "day")
        .agg(
            F.timestamp_millis(setting["from_ms"]).alias("unsettled_time"),
            F.timestamp_millis(F.least(heard, complete)).alias("settled_time"),
        )
    )


def since_settled(rows: DataFrame, settled: DataFrame | None, end: str) -> DataFrame:
    """Return `rows` without those that ended, at `end`, while their name server's state was not settled."""
    if settled is None:
        return rows
    joined = rows.join(F.broadcast(settled), on=["namesrv_id", "day"], how="left")
    is_settled = f"settled_time IS NULL OR {end} IS NULL OR {end} > settled_time OR {end} <= unsettled_time"
    return joined.where(is_settled).drop("settled_time", "unsettled_time")


def with_learned(route_changes: DataFrame, slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the route changes; those are only `learned` in which an answer or a snapshot showed what had been so before."""
    shown = slices["event_outcomes"].where("operation IN ('observed_answer', 'snapshot')")
    shown = shown.select("namesrv_id", F.col("event_id").alias("caused_by"), F.lit("learned").alias("learned"))
    return route_changes.join(shown, on=["namesrv_id", "caused_by"], how="left").withColumn(
        "change", F.coalesce("learned", "change")
    )


def findings_from(spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of `findings`, a query for each code. `frames`: gold tables, `wipes` and `clock_facts`."""
    return union_all(_asked(spark, query.sql, frames) for query in finding_queries())


def _asked(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    used: dict[str, Any] = {name: frame for name, frame in frames.items() if "{" + name + "}" in sql}
    return spark.sql(sql, **used)

"""Say what an operator should know about a day: route changes, expired brokers, orphaned topics, findings.

Reads   the slices of the days, `event_outcomes`, `registrations`, `topic_configs`
Gives   route_changes, expired_brokers, orphaned_topics, findings for the same days

Everything is SQL, but one sweep over the rows of each topic, which is `namesrv_core.route_history`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.flag_expired import expired_brokers_from
from jobs.flag_routes import (
    open_orphans_from,
    orphaned_topics_from,
    reported_rows_from,
    route_changes_from,
    route_rows_from,
    swept_from,
)
from jobs.tables import conformed, union_all
from namesrv_core.profile import Namesrv
from schemas import gold as tables
from schemas.gold import EXPIRED_BROKERS, FINDINGS, ORPHANED_TOPICS, ROUTE_CHANGES
from schemas.views import finding_queries


def flag(
    spark: SparkSession,
    gold: Mapping[str, DataFrame],
    bronze: Mapping[str, DataFrame],
    namesrvs: Mapping[str, Namesrv],
    days: Iterable[dt.date],
) -> dict[str, DataFrame]:
    """Return `route_changes`, `expired_brokers`, `orphaned_topics` and `findings` of `days`.

    `gold`: the history tables and `event_outcomes`; `orphaned_topics`, if given, tells when what was open
    before the first day began. `bronze`: `registrations` and `topic_configs`. `days` follow each other, but
    days without slices may be missing. The sweep runs here, once; the rest runs when it is written. The
    slices that many findings read are persisted: `spark.catalog.clearCache()` when all is written.
    """
    wanted = sorted(set(days))
    slices = {
        table.name: gold[table.name].where(F.col("day").isin(wanted))
        for table in (*tables.HISTORY_TABLES, tables.EVENT_OUTCOMES)
    }
    for name in ("topic_queue_history", "broker_addr_history", "broker_live_history", "event_outcomes"):
        slices[name] = slices[name].persist(StorageLevel.MEMORY_AND_DISK)
    rows = [*route_rows_from(slices), reported_rows_from(slices, bronze, wanted)]
    if ORPHANED_TOPICS.name in gold and wanted:
        rows.append(open_orphans_from(gold[ORPHANED_TOPICS.name], wanted[0]))
    # Checkpoints also cut the plans short, which eighteen queries would otherwise analyse again and again.
    swept = swept_from(rows, namesrvs).localCheckpoint()
    expired = expired_brokers_from(slices).localCheckpoint(eager=False)
    found = {
        ROUTE_CHANGES.name: conformed(route_changes_from(swept), ROUTE_CHANGES),
        ORPHANED_TOPICS.name: conformed(orphaned_topics_from(swept), ORPHANED_TOPICS),
        EXPIRED_BROKERS.name: conformed(expired, EXPIRED_BROKERS),
    }
    wipes = gold[tables.EVENT_OUTCOMES.name].where("operation = 'wipe_write_perm'")
    found[FINDINGS.name] = conformed(findings_from(spark, {**slices, **found, "wipes": wipes}), FINDINGS)
    return found


def findings_from(spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of `findings`, a query for each code. `frames`: gold tables and `wipes`."""
    return union_all(_asked(spark, query.sql, frames) for query in finding_queries())


def _asked(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    used: dict[str, Any] = {name: frame for name, frame in frames.items() if "{" + name + "}" in sql}
    return spark.sql(sql, **used)

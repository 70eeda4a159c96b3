"""Carry forward what a day did not change.

Reads   the plan of a day: its quiet units, its uneventful periods
Gives   their rows of the replayed tables
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs import placing, quiet
from jobs.day_plan import DayPlan, Quiet, uneventful
from namesrv_core.machine.instants import US_PER_MS
from schemas import gold
from schemas.table import Table

_HOUR_US = 3_600_000_000


def forwarded(plan: DayPlan, table: Table) -> DataFrame | None:
    """Return the rows of a replayed table that no replay gives, without `day`; None if there are none such."""
    if plan.quiet is None:
        return None
    if table is gold.REFRESHES_HOURLY:
        return refreshes_hourly_from(uneventful(plan.quiet.buckets, plan.unit_of, plan.quiet.eventful), plan.quiet)
    if table.name not in plan.open_rows:
        return None
    rows = plan.open_rows[table.name]
    nodes = F.broadcast(plan.quiet.nodes.select("namesrv_id", "node"))
    kept = rows.withColumn("node", placing.row_node(rows)).join(nodes, on=["namesrv_id", "node"], how="left_semi")
    return (_renewed(kept, plan.quiet) if table is gold.BROKER_LIVE_HISTORY else kept).drop("node", "day")


def refreshes_hourly_from(buckets: DataFrame, road: Quiet) -> DataFrame:
    """Return one row for each live entry and hour of `buckets`, all of whose beats are plain refreshes."""
    hour = F.timestamp_micros(F.expr(f"first_us DIV {_HOUR_US} * {_HOUR_US}")).alias("hour")
    entry = ("namesrv_id", quiet.live_cluster(road.with_cluster).alias("cluster_name"), "broker_addr", hour)
    return buckets.groupBy(*entry).agg(
        F.sum("beats").alias("refreshes"),
        F.timestamp_micros(F.min("first_us")).alias("first_time"),
        F.timestamp_micros(F.max("last_us")).alias("last_time"),
    )


def _renewed(live: DataFrame, road: Quiet) -> DataFrame:
    """Return live rows with their first and last beat of the day; a lease is counted in milliseconds."""
    entry = {"namesrv_id": "of_namesrv", "live_cluster": "of_cluster", "node": "of_node"}
    last = (
        road.spans.groupBy(*entry)
        .agg(F.timestamp_millis(F.expr(f"max(last_us) DIV {US_PER_MS}")).alias("last_beat"))
        .withColumnsRenamed(entry)
    )
    keyed = live.withColumn("live_cluster", quiet.live_cluster(road.with_cluster))
    same = [F.col(one).eqNullSafe(F.col(other)) for one, other in entry.items()]
    return (
        keyed.join(last, on=same, how="left")
        .withColumn("first_update_time", F.col("last_update_time"))
        .withColumn("last_update_time", F.coalesce("last_beat", "last_update_time"))
        .drop("last_beat", "live_cluster", *entry.values())
    )

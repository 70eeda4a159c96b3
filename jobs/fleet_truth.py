"""The truth about a simulated day: each hole that was planted, and the removals that must come of it.

Reads   the plan of the day, nothing that was replayed
Gives   the rows of truth.holes
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.fleet import Fleet
from jobs.fleet_plan import RESTART, beat_instant, broker_addr, broker_name, instant, namesrv_id
from namesrv_core.machine.instants import US_PER_MS


def holes_from(plan: DataFrame, fleet: Fleet, day: dt.date) -> DataFrame:
    """Return the holes of a day's `plan`; an outage between two beats, which nobody notices, is none.

    A name server removes a broker at the first tick of its scan that lies after the last beat plus the lease, unless
    the broker has come back by then. Ticks are one period apart, at a phase that the log does not show exactly: hence a
    least and a most number of removals. A restart removes nobody: the new process knows no broker.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.scanNotActiveBroker; the period is the profile's.
    """
    is_noticed = F.col("hole").isNotNull() & ((F.col("k_to") > F.col("k_from")) | (F.col("hole") == RESTART))
    # The lease is counted from the millisecond of the beat.
    lease_end_ms = F.unix_millis("last_beat_time") + fleet.lease_ms
    holes = plan.where(is_noticed & (F.col("k_from") > 0)).withColumns(
        {
            "last_beat_time": beat_instant(fleet, F.col("k_from") - 1),
            "first_beat_time": beat_instant(fleet, F.col("k_to")),
        }
    )
    holes = holes.withColumns(
        {
            "lease_end_time": F.timestamp_millis(lease_end_ms),
            "removal_due_time": F.timestamp_millis(lease_end_ms + fleet.profile.scan_period_ms + 1),
        }
    )
    may_expire = F.col("hole") != RESTART
    first = F.unix_micros("first_beat_time")
    is_possible = may_expire & (first >= (lease_end_ms + 1) * US_PER_MS)
    is_certain = may_expire & (F.col("first_beat_time") > F.col("removal_due_time"))
    return holes.select(
        namesrv_id().alias("namesrv_id"),
        F.col("hole").alias("kind"),
        broker_name().alias("broker_name"),
        broker_addr().alias("broker_addr"),
        instant(fleet, F.col("from_us")).alias("hole_from"),
        instant(fleet, F.col("to_us")).alias("hole_to"),
        "last_beat_time",
        "first_beat_time",
        (F.col("k_to") - F.col("k_from")).alias("lost_beats"),
        F.lit(fleet.lease_ms).alias("lease_ms"),
        "lease_end_time",
        "removal_due_time",
        is_certain.cast("int").alias("expiries_min"),
        is_possible.cast("int").alias("expiries_max"),
        F.lit(day).alias("day"),
    )

"""Facts about the recording's own clocks, for the findings about them.

Reads   namesrv_events
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.tables import empty
from schemas.bronze import NAMESRV_EVENTS


def clock_facts_from(spark: SparkSession, bronze: Mapping[str, DataFrame], days: Collection[dt.date]) -> DataFrame:
    """Return the rows of `namesrv_events` that say that a clock went back on `days`; none where the table is not given."""
    if NAMESRV_EVENTS.name not in bronze:
        return empty(spark, NAMESRV_EVENTS.schema)
    return bronze[NAMESRV_EVENTS.name].where((F.col("kind") == "clock_went_back") & F.col("day").isin(*days))

"""Write the state of one name server at an instant as a snapshot file, from the published history tables."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.frames import codec_ready
from jobs.settings import namesrvs_of, read_settings
from jobs.views import register_views
from jobs.warehouse import Warehouse
from namesrv_core.history.intervals import Interval, restored
from namesrv_core.history.snapshot import snapshot_text
from namesrv_core.inference.past import Past
from namesrv_core.machine.instants import US_PER_MS
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from schemas import codec, gold, times
from schemas.intervals import interval_of


class SnapshotUnknownError(LookupError):
    """The tables do not say what the name server held at the instant."""


def snapshot_at(house: Warehouse, namesrv_id: str, at: dt.datetime) -> str:
    """Return the snapshot of `namesrv_id` at `at` (with a time zone), as the published tables have it.

    Raises SnapshotUnknownError for a name server or an instant that nothing is recorded of, and where something of the
    routes was not known then.
    """
    register_views(house.spark, house.path)
    at_us = times.instant_us(at)
    own = F.col("namesrv_id") == namesrv_id
    until_then = F.when(F.col("day") <= F.lit(times.day_of(at_us)), F.col("day"))
    last = house.spark.table("slice_days").groupBy("namesrv_id").agg(F.max(until_then).alias("day")).collect()
    day_of_namesrv = {row["namesrv_id"]: row["day"] for row in last}
    if namesrv_id not in day_of_namesrv:
        known = ", ".join(sorted(day_of_namesrv))
        raise SnapshotUnknownError(f"{namesrv_id}: no such name server; there are {known}")
    day = day_of_namesrv[namesrv_id]
    if day is None:
        raise SnapshotUnknownError(f"{namesrv_id}: nothing is recorded of it before {at.isoformat()}")
    slices = {table.name: house.spark.table(f"{table.name}_slices") for table in gold.HISTORY_TABLES}
    past = _past_of(house.spark.table(gold.PAST_KNOWLEDGE.name).where(own & (F.col("day") == F.lit(day))))
    if past is not None and not 0 < past.complete_ms * US_PER_MS <= at_us:
        raise SnapshotUnknownError(f"{namesrv_id}: its routes were not known completely at {at.isoformat()}")
    beats = _beats_at(house, namesrv_id, at_us)
    intervals: list[Interval] = []
    for name, frame in slices.items():
        if name != gold.DATA_VERSION_HISTORY.name:
            rows = codec_ready(frame.where(own & (F.col("day") == F.lit(day)))).where(
                f"valid_from <= {at_us} AND (valid_to IS NULL OR valid_to > {at_us})"
            )
            intervals += (interval_of(name, row.asDict(recursive=True)) for row in rows.collect())
    namesrvs = namesrvs_of(read_settings(house.spark.table(gold.NAMESRV_SETTINGS.name), day), day)
    registry = Registry(namesrvs[namesrv_id].profile)
    restored(registry, (_with_beat(interval, beats) for interval in intervals))
    return snapshot_text(registry, namesrv_id, at_us, with_kv=past is None or past.knows_kv())


def _past_of(rows: DataFrame) -> Past | None:
    facts = [codec.fact_of(row.asDict()) for row in rows.collect()]
    return Past.load(facts) if facts else None


def _beats_at(house: Warehouse, namesrv_id: str, at_us: int) -> dict[LiveKey, int]:
    """Return the lastUpdateTimestamp of each live entry at an instant."""
    live = house.spark.sql(f"SELECT * FROM broker_live_table_at(timestamp_micros({at_us}))")  # noqa: S608  a number
    rows = live.where(F.col("namesrv_id") == namesrv_id).select(
        "cluster_name", "broker_addr", F.unix_millis("last_update_timestamp").alias("beat_ms")
    )
    return {LiveKey(row["cluster_name"], row["broker_addr"]): row["beat_ms"] for row in rows.collect()}


def _with_beat(interval: Interval, beats: dict[LiveKey, int]) -> Interval:
    if interval.table != "broker_live":
        return interval
    return interval._replace(last_update_ms=beats.get(LiveKey(*interval.key), interval.last_update_ms))  # type: ignore[arg-type]

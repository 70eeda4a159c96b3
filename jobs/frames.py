"""Frames that more than one job needs: a day's events together, history rows as the codec takes them, rows in packs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.tables import union_all
from namesrv_core.asking.answers import STANDARD_JSON_SINCE
from namesrv_core.machine.instants import NS_PER_US
from schemas.bronze import EVENT_TABLES, REQUEST
from schemas.table import Table

Frames = Mapping[str, DataFrame]
Batches = Iterator[pa.RecordBatch]


def day_events(
    bronze: Frames, day: dt.date, unknown: Sequence[str] = (), *, tables: Sequence[Table] = EVENT_TABLES
) -> DataFrame:
    """Return the day's events of all tables in one frame: `kind` is the table, `operation` what it asks for.

    `received_us`: when a request had arrived; `arrival_us`: the same for one that was answered. `unknown`: name servers
    of whose past something is unknown; what they answered, and snapshots of them, are events, too.
    """
    events = union_all(_events_of(bronze[table.name], table, day) for table in tables)
    events = events.drop(*(column.name for column in REQUEST if column.name != "code"), "body_bytes", "compressed")
    if not unknown:
        return events
    answers = observation_rows(bronze["route_observations"], day).withColumns(
        {"kind": F.lit("route_observations"), "effect_us": F.expr(f"seq DIV {NS_PER_US}")}
    )
    snapshots = (
        bronze["snapshots"]
        .where(F.col("day") == F.lit(day))
        .select(
            "namesrv_id",
            "event_id",
            "seq",
            "snapshot",
            F.lit("snapshots").alias("kind"),
            F.unix_micros("effect_time").alias("effect_us"),
        )
    )
    is_unknown = F.col("namesrv_id").isin(*unknown)
    return union_all([events, answers.where(is_unknown), snapshots.where(is_unknown)])


def observation_rows(observations: DataFrame, day: dt.date) -> DataFrame:
    """Return the answers of `day` with the columns of which the codec makes questions and answers."""
    return observations.where(F.col("day") == F.lit(day)).select(
        "namesrv_id",
        "event_id",
        "seq",
        "request_seq",
        "code",
        "subject",
        "scope",
        (F.col("standard_json") | (F.col("request_version") >= STANDARD_JSON_SINCE)).alias("standard_json"),
        "response_code",
        "remark",
        "response_fields",
        "body",
    )


def _events_of(frame: DataFrame, table: Table, day: dt.date) -> DataFrame:
    rows = frame.where(F.col("day") == F.lit(day))
    if table.name == "channel_events":
        rows = rows.withColumnRenamed("kind", "channel_kind")
    if table.name == "namesrv_events":
        rows = rows.where("kind IN ('started', 'stopped', 'recording_gap')").withColumnRenamed("kind", "namesrv_kind")
        rows = rows.drop("version")
    rows = rows.withColumn("kind", F.lit(table.name)).withColumn("effect_us", F.unix_micros("effect_time"))
    if "response_code" in rows.columns:
        answered = F.col("response_code").isNotNull()
        rows = rows.withColumn("received_us", F.unix_micros("event_time"))
        rows = rows.withColumn("arrival_us", F.when(answered, F.col("received_us")))
    return rows.drop("event_time", "effect_time", "source_file", "source_offset", "ingest_run", "day", "evidence")


def topic_tables_of(events: DataFrame, topic_configs: DataFrame, *per: str) -> DataFrame:
    """Return the topic tables that registrations among `events` name, once for each value of the columns `per`."""
    named = events.where("topic_config_digest IS NOT NULL").select(*per, "topic_config_digest").distinct()
    return named.join(
        topic_configs.select("topic_config_digest", "topics", "mappings"), on="topic_config_digest", how="inner"
    )


def codec_ready(frame: DataFrame) -> DataFrame:
    """Return history rows with their times as microseconds, as the codec takes them."""
    for column in ("valid_from", "valid_to", "known_from", "first_update_time", "last_update_time"):
        if column in frame.columns:
            frame = frame.withColumn(column, F.unix_micros(column))
    return frame.drop("day")


def pack_of(count: int, *columns: str) -> Column:
    """Return the pack, of so many, of rows that have the same values in `columns`."""
    return F.pmod(F.xxhash64(*columns), F.lit(count)).cast("int")


def of_packs(
    rows: DataFrame, count: int, order: Sequence[str], function: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Return what `function` makes of each `pack` of `rows`, one of so many, whose rows come in `order`.

    Spark calls Python once for a pack: for each of the groups that it consists of that would often take longer than they do.
    """
    ordered = rows.repartitionById(count, "pack").sortWithinPartitions("pack", *order)
    return ordered.groupBy("pack").applyInArrow(function, schema)

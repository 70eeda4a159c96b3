"""The rows of the bronze tables that a simulated day gives.

Reads   the plan of the day and its beats (see jobs/fleet_plan.py)
Gives   rows of heartbeats, registrations, namesrv_events, topic_configs
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs import fleet_plan
from jobs.fleet import Fleet
from jobs.fleet_plan import RESTART, broker_addr, broker_host, broker_name, namesrv_id
from jobs.tables import union_all
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.requests import topic_configs_row
from schemas import bronze
from schemas.times import day_start_us

_CLUSTER = "fleet"
_HA_PORT, _CLIENT_PORT = 10912, 30000
_BODY_BYTES, _BODY_BYTES_PER_TOPIC = 200, 110
# Beats before which lines of a name server's own life come in its source.
_FIRST_LINES = 2


def with_identity(plan: DataFrame, fleet: Fleet, day: dt.date) -> DataFrame:
    """Add what all events of an hour have in common: who talks to whom, and where it is said to be read from."""
    host = broker_host()
    return plan.withColumns(
        {
            "namesrv_id": namesrv_id(),
            "broker_name": broker_name(),
            "broker_addr": broker_addr(),
            "ha_server_addr": F.concat(host, F.lit(f":{_HA_PORT}")),
            "channel_before": _channel(fleet, F.col("life_us")),
            "channel_after": _channel(fleet, F.col("to_us")),
            "origin": F.concat_ws(
                "/", F.lit(fleet.seed), F.col("n").cast("string"), F.col("b").cast("string"), F.lit("")
            ),
            "source_file": F.concat(F.lit(source_prefix(day)), F.col("n").cast("string")),
        }
    )


def _channel(fleet: Fleet, life_us: Column) -> Column:
    """Return the connection of broker `b` to the process that started at `life_us`; it outlives outages."""
    opened_ns = (life_us + F.col("b") + day_start_us(fleet.start)) * NS_PER_US
    return F.concat(broker_host(), F.lit(":"), F.col("n") + _CLIENT_PORT, F.lit("#"), opened_ns)


def source_prefix(day: dt.date) -> str:
    """Return how the file names of `day`'s events begin; they end with the number of the name server."""
    return f"fleet-{day:%Y%m%d}-"


def heartbeats_from(beats: DataFrame, fleet: Fleet, day: dt.date) -> DataFrame:
    """Return the rows of `heartbeats`."""
    code = fleet_plan.heartbeat_code(fleet)
    light = code == RequestCode.BROKER_HEARTBEAT
    rows = _requests_from(beats.where(~F.col("registers")), fleet, day, code)
    version = F.lit(None) if light else _data_version()
    return rows.withColumns({"one_way": F.lit(light), "data_version": version})


def registrations_from(beats: DataFrame, digests: DataFrame, fleet: Fleet, day: dt.date) -> DataFrame:
    """Return the rows of `registrations`; `digests`: (owner, version, topic_config_digest)."""
    owner = F.lit(-1) if fleet.shared_topics else F.col("b")
    rows = beats.where("registers").withColumn("owner", owner)
    rows = rows.join(F.broadcast(digests), on=["owner", "version"], how="inner")
    five = fleet.profile.own_heartbeat_timeout
    return _requests_from(rows, fleet, day, int(RequestCode.REGISTER_BROKER)).withColumns(
        {
            "one_way": F.lit(False),
            "enable_acting_master": F.lit(False if five else None),
            "heartbeat_timeout_ms": F.lit(fleet.timeout_in_header_ms),
            "data_version": _data_version(),
            "topic_count": F.lit(fleet.topics),
            "filter_servers": F.array().cast("array<string>"),
            "compressed": F.lit(False),
            "body_bytes": F.lit(min(1 << 24, _BODY_BYTES + _BODY_BYTES_PER_TOPIC * fleet.topics)),
        }
    )


def _data_version() -> Column:
    version = (
        F.lit(0).alias("state_version"),
        F.col("version_ms").alias("timestamp"),
        F.col("version").alias("counter"),
    )
    return F.struct(*version)


def _requests_from(beats: DataFrame, fleet: Fleet, day: dt.date, code: int) -> DataFrame:
    """Return the columns that heartbeats and registrations share. Nobody has seen what was answered."""
    at = F.timestamp_micros("at_us")
    first = fleet.number_of(day) * fleet.beats_per_day
    return beats.withColumns(
        {
            "seq": F.col("at_us") * 1_000 + 500,
            "event_id": F.md5(F.concat("origin", F.col("k").cast("string"))),
            "event_time": at,
            "effect_time": at,
            "code": F.lit(code),
            "request_version": F.lit(fleet.protocol),
            "cluster_name": F.lit(_CLUSTER),
            "broker_id": F.lit(0),
            "source_offset": (F.col("k") - first) * fleet.brokers + F.col("b") + 1 + _FIRST_LINES,
            "day": F.lit(day),
        }
    )


def namesrv_events_from(plan: DataFrame, fleet: Fleet, day: dt.date) -> DataFrame:
    """Return the rows of `namesrv_events`: the first start of each process, and its restarts."""
    begin_us = day_start_us(fleet.start)
    lives = plan.where(F.col("b") == 0).withColumns({"stopped_us": F.col("from_us"), "started_us": F.col("to_us")})
    lives = lives.where(F.col("hole") == RESTART).select("n", "stopped_us", "started_us")
    if day == fleet.start:
        firsts = plan.where((F.col("b") == 0) & (F.col("h") == 0)).select(
            "n", F.lit(0).cast("bigint").alias("started_us")
        )
        lives = union_all([lives, firsts])
    facts = {"stopped": ("stopped_us", 0), "started": ("started_us", 0), "identified": ("started_us", 1)}
    rows = union_all(
        lives.where(F.col(instant).isNotNull()).select(
            "n", F.lit(kind).alias("kind"), (F.col(instant) + begin_us).alias("at_us"), F.lit(ns).alias("ns")
        )
        for kind, (instant, ns) in facts.items()
    )
    at = F.timestamp_micros("at_us")
    return rows.select(
        namesrv_id().alias("namesrv_id"),
        # Beats lie in the middle of their microsecond: no position is taken twice.
        (F.col("at_us") * 1_000 + F.col("ns")).alias("seq"),
        F.md5(
            F.concat_ws("/", F.lit(fleet.seed), "kind", F.col("n").cast("string"), F.col("at_us").cast("string"))
        ).alias("event_id"),
        at.alias("event_time"),
        at.alias("effect_time"),
        "kind",
        F.when(F.col("kind") == "identified", fleet.protocol).alias("version"),
        F.lit("planned by the fleet simulator").alias("evidence"),
        F.concat(F.lit(source_prefix(day)), F.col("n").cast("string")).alias("source_file"),
        F.lit(1).alias("source_offset"),
        F.lit(day).alias("day"),
    )


def topic_configs_from(spark: SparkSession, fleet: Fleet, plan: DataFrame) -> DataFrame:
    """Return the topic tables of the brokers in `plan`, with their `owner` and `version`, beside the columns of topic_configs."""
    owner = F.lit(-1) if fleet.shared_topics else F.col("b")
    both = plan.where(F.col("h") % 24 == 0).select(
        owner.alias("owner"), F.explode(F.array("version_before", "version_after")).alias("version")
    )
    columns = [c for c in bronze.TOPIC_CONFIGS_TABLE.schema if c.name != "ingest_run"]
    schema = "owner INT, version INT, " + ", ".join(f"{c.name} {c.dataType.simpleString()}" for c in columns)
    arrow = to_arrow_schema(spark.createDataFrame([], schema).schema)

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                values = topic_configs_row(fleet.topic_table(row["owner"], row["version"])).values
                yield pa.RecordBatch.from_pylist([{**row, **values}], schema=arrow)

    return both.distinct().mapInArrow(build, schema)

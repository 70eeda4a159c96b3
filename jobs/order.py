"""Decide what the wire does not show: which of two racing events came first.

Reads   the bronze events and answers of a day, and the history slices of the day before
Gives   order_decisions, and the positions of the events that take effect elsewhere than recorded
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.frames import Frames, codec_ready, day_events
from jobs.replay_unit import NamesrvDay
from jobs.verify import observation_rows, observed_of
from namesrv_core.decisions import Candidate, Day, Weighed, weigh
from namesrv_core.history import Interval, restored
from namesrv_core.registry import Registry
from namesrv_core.replay import TimedEvent
from schemas import codec, gold
from schemas.codec import topic_table_of

# A one-way request this close to the end of its connection races with it; measured: within 2 ms, or in one segment.
_RACE_MS = 10
_ALTERNATIVES = ["the registration, then the close", "the close, then the registration"]
_WEIGHED_SCHEMA = (
    "namesrv_id STRING, decision_id STRING, chosen INT, answers_for ARRAY<STRING>, answers_against ARRAY<STRING>, "
    "moved_id STRING, moved_seq BIGINT"
)
_WEIGHED_ARROW = pa.schema(
    [
        ("namesrv_id", pa.string()),
        ("decision_id", pa.string()),
        ("chosen", pa.int32()),
        ("answers_for", pa.list_(pa.string())),
        ("answers_against", pa.list_(pa.string())),
        ("moved_id", pa.string()),
        ("moved_seq", pa.int64()),
    ]
)


def candidates_from(registrations: DataFrame, channel_events: DataFrame) -> DataFrame:
    """Return registrations without a response on a connection that its client closed at once, one row each.

    A worker thread takes the registration, the event thread the close; nothing on the wire tells who was first.
    """
    closes = channel_events.where("kind = 'close' AND closed_by = 'client'").select(
        "namesrv_id",
        "channel_id",
        F.col("event_id").alias("close_id"),
        F.col("seq").alias("close_seq"),
        F.col("event_time").alias("close_time"),
    )
    silent = registrations.where("response_code IS NULL AND refusal IS NULL")
    gap_ms = (F.unix_micros("close_time") - F.unix_micros("event_time")) / 1_000
    decision = F.substring(F.sha2(F.concat_ws(" ", F.lit("register_and_close"), "event_id", "close_id"), 256), 1, 32)
    return (
        silent.join(closes, on=["namesrv_id", "channel_id"], how="inner")
        .where(~F.col("one_way") | (gap_ms <= _RACE_MS))
        .where("seq < close_seq")
        .select(
            "namesrv_id",
            "channel_id",
            "event_id",
            "effect_time",
            "seq",
            "close_id",
            "close_seq",
            decision.alias("decision_id"),
        )
    )


def decide(
    spark: SparkSession, bronze: Frames, carried: Frames, day: dt.date, contexts: Mapping[str, NamesrvDay]
) -> tuple[DataFrame, DataFrame | None]:
    """Return order_decisions of `day`, and the events (event_id, seq) that it moves; None if it moves none."""
    today = F.col("day") == F.lit(day)
    found = candidates_from(bronze["registrations"].where(today), bronze["channel_events"].where(today))
    candidates = [row.asDict() for row in found.collect()]
    if not candidates:
        return spark.createDataFrame([], gold.ORDER_DECISIONS.schema), None
    concerned = sorted({row["namesrv_id"] for row in candidates})
    rows = _rows_of_whole_days(bronze, carried, day).where(F.col("namesrv_id").isin(concerned))

    def weigh_day(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Weigh the candidates of one name server; `key` is (namesrv_id,)."""
        namesrv_id = key[0].as_py()
        own = [row for row in candidates if row["namesrv_id"] == namesrv_id]
        incoming = [row for batch in batches for row in batch.to_pylist()]
        weighed = weigh(_day_of(incoming, contexts[namesrv_id]), [_candidate_of(row) for row in own])
        yield pa.RecordBatch.from_pylist([_weighed_row(namesrv_id, w) for w in weighed], schema=_WEIGHED_ARROW)

    weighed = (
        rows.repartition("namesrv_id")
        .sortWithinPartitions("namesrv_id", "rank", "seq", "event_id")
        .groupBy("namesrv_id")
        .applyInArrow(weigh_day, _WEIGHED_SCHEMA)
        .persist()
    )
    moved = weighed.where("chosen = 1").select(F.col("moved_id").alias("event_id"), F.col("moved_seq").alias("seq"))
    return _decisions_from(weighed, found, day), moved


def _decisions_from(weighed: DataFrame, found: DataFrame, day: dt.date) -> DataFrame:
    return found.join(weighed, on=["namesrv_id", "decision_id"], how="inner").select(
        "namesrv_id",
        "decision_id",
        F.lit("register_and_close").alias("kind"),
        "effect_time",
        F.array("channel_id").alias("channel_ids"),
        F.array("event_id", "close_id").alias("event_ids"),
        F.array(*[F.lit(words) for words in _ALTERNATIVES]).alias("alternatives"),
        "chosen",
        F.size("answers_for").cast("bigint").alias("answers_for"),
        F.size("answers_against").cast("bigint").alias("answers_against"),
        F.col("answers_for").alias("evidence_for"),
        F.col("answers_against").alias("evidence_against"),
        F.lit(day).alias("day"),
    )


def _rows_of_whole_days(bronze: Frames, carried: Frames, day: dt.date) -> DataFrame:
    """Return everything about a day in one frame: carried rows, topic configurations, events, answers."""
    events = day_events(bronze, day).withColumn("rank", F.lit(2))
    named = events.where("topic_config_digest IS NOT NULL").select("namesrv_id", "topic_config_digest").distinct()
    configs = named.join(
        bronze["topic_configs"].select("topic_config_digest", "topics", "mappings"),
        on="topic_config_digest",
        how="inner",
    ).withColumn("rank", F.lit(0))
    rows = events.unionByName(configs, allowMissingColumns=True)
    rows = rows.unionByName(
        observation_rows(bronze["route_observations"], day).withColumn("rank", F.lit(3)),
        allowMissingColumns=True,
    )
    for table in gold.HISTORY_TABLES:
        if table.name in carried and table is not gold.DATA_VERSION_HISTORY:
            slices = codec_ready(carried[table.name].where("closed_by IS NULL")).withColumn("kind", F.lit(table.name))
            rows = rows.unionByName(slices.withColumn("rank", F.lit(1)), allowMissingColumns=True)
    return rows


def _day_of(rows: list[dict[str, Any]], context: NamesrvDay) -> Day:
    topic_tables = {row["topic_config_digest"]: topic_table_of(row) for row in rows if row["rank"] == 0}
    carried: list[Interval] = [
        codec.carried(codec.interval_of(row["kind"].removesuffix("_history"), row)) for row in rows if row["rank"] == 1
    ]
    events = [row for row in rows if row["rank"] == 2]

    def start() -> Registry:
        registry = Registry(context.namesrv.profile)
        registry.scan_halted = context.scan_halted
        restored(registry, carried)
        return registry

    return Day(
        start,
        [
            TimedEvent(row["seq"], row["event_id"], row["effect_us"], codec.event_of(row, topic_tables))
            for row in events
        ],
        {row["event_id"]: row["arrival_us"] * 1_000 for row in events if row["arrival_us"] is not None},
        [observed_of(row) for row in rows if row["rank"] == 3],
        context.namesrv,
        context.schedule,
        context.namesrv_id,
        context.until_seq,
        context.from_seq,
    )


def _candidate_of(row: Mapping[str, Any]) -> Candidate:
    return Candidate(row["decision_id"], row["seq"], row["event_id"], row["close_seq"] + 1)


def _weighed_row(namesrv_id: str, weighed: Weighed) -> dict[str, Any]:
    return {
        "namesrv_id": namesrv_id,
        "decision_id": weighed.candidate.decision_id,
        "chosen": weighed.chosen,
        "answers_for": list(weighed.for_chosen),
        "answers_against": list(weighed.against_chosen),
        "moved_id": weighed.candidate.moved_id,
        "moved_seq": weighed.candidate.moved_seq,
    }

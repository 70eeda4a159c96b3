"""Decide what the wire does not show: which of several racing events came first.

Reads   the bronze events and answers of a day, and the history slices of the day before
Gives   order_decisions, and the positions of the events that take effect elsewhere than recorded
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.arrow_rows import rows_of
from jobs.frames import Frames, codec_ready, day_events, observation_rows, topic_tables_of
from jobs.replay_unit import NamesrvDay
from jobs.tables import empty, union_all
from jobs.verify import observed_of
from namesrv_core.history.intervals import Interval, restored
from namesrv_core.inference.decisions import STALL_NS, Decided, Placed, decide
from namesrv_core.inference.races import LAG_NS, Day
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.loop import TimedEvent
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from schemas import codec, gold
from schemas.codec import topic_table_of
from schemas.intervals import carried_over, interval_of
from schemas.table import STRING, struct_of

_TOPIC_CONFIG_RANK, _CARRIED_RANK, _EVENT_RANK, _OBSERVATION_RANK, _PAST_RANK = range(5)
_NS_PER_S = 1_000_000_000


def racing_namesrvs_from(events: DataFrame, live: DataFrame) -> DataFrame:
    """Return the name servers (namesrv_id) on whose day something may have raced; the core looks closely.

    `events`: the day's, as `day_events` gives them; `live`: the broker_live rows with which the day starts. Cheap: joins
    on broker names and whole seconds.
    """
    requests = events.where("received_us IS NOT NULL AND kind <> 'heartbeats'")
    owners = union_all(
        frame.select("namesrv_id", "channel_id", "broker_name")
        for frame in (events.where("kind = 'registrations'"), live)
    ).distinct()
    closes = events.where("kind = 'channel_events'").select(
        "namesrv_id", "channel_id", F.col("seq").alias("effect_seq")
    )
    closes = closes.join(owners, on=["namesrv_id", "channel_id"], how="inner")
    effects = union_all(
        [
            closes.select("namesrv_id", "broker_name", "effect_seq"),
            requests.select("namesrv_id", "broker_name", F.col("seq").alias("effect_seq")),
        ]
    ).withColumn("second", F.expr(f"effect_seq DIV {_NS_PER_S}"))
    first = F.col("received_us") * NS_PER_US - LAG_NS
    under_way = requests.select(
        "namesrv_id",
        "broker_name",
        "seq",
        first.alias("first_seq"),
        F.explode(F.sequence((first / _NS_PER_S).cast("bigint"), F.expr(f"seq DIV {_NS_PER_S}"))).alias("second"),
    )
    overlaps = F.expr("effect_seq >= first_seq AND effect_seq < seq")
    without_name = F.col("broker_name").isNull()  # topics and KV entries concern whoever has them
    registered = requests.where("kind = 'registrations' AND arrival_us IS NULL")
    found = [
        events.where(f"arrival_us IS NOT NULL AND seq - arrival_us * {NS_PER_US} >= {STALL_NS}"),
        registered.join(closes, on=["namesrv_id", "channel_id"], how="inner").where(
            f"effect_seq > seq AND effect_seq <= seq + {LAG_NS}"
        ),
        under_way.join(effects, on=["namesrv_id", "second", "broker_name"], how="inner").where(overlaps),
        under_way.where(without_name).join(effects, on=["namesrv_id", "second"], how="inner").where(overlaps),
        under_way.join(effects.where(without_name), on=["namesrv_id", "second"], how="inner").where(overlaps),
    ]
    return union_all(frame.select("namesrv_id") for frame in found).distinct()


def decided_day(
    spark: SparkSession,
    events: DataFrame,
    bronze: Frames,
    carried: Frames,
    day: dt.date,
    contexts: Mapping[str, NamesrvDay],
) -> tuple[DataFrame, DataFrame | None]:
    """Return order_decisions of `day`, and the events (event_id, seq, looked_up) that it moves; None if it moves none.

    `events`: those among which a race can matter, as `day_events` gives them.
    """
    live = codec_ready(carried["broker_live_history"].where("closed_by IS NULL"))
    racing = [row["namesrv_id"] for row in racing_namesrvs_from(events, live).collect()]
    if not racing:
        return empty(spark, gold.ORDER_DECISIONS.schema), None
    unknown = [name for name in racing if contexts[name].has_unknown_past]
    rows = rows_of_whole_days(bronze, carried, day, unknown).where(F.col("namesrv_id").isin(sorted(racing)))

    def decide_namesrv(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decide the races of one name server; `key` is (namesrv_id,)."""
        context = contexts[key[0].as_py()]
        decided, placed = decide(day_of_rows(list(rows_of(batches)), context))
        out = [_decision_row(context.namesrv_id, d, day) for d in decided] + [_placed_row(p) for p in placed]
        yield pa.RecordBatch.from_pylist(out, schema=_DECIDED_ARROW)

    decided = (
        rows.repartition("namesrv_id")
        .sortWithinPartitions("namesrv_id", "rank", "seq", "event_id")
        .groupBy("namesrv_id")
        .applyInArrow(decide_namesrv, _DECIDED_SCHEMA)
        .persist()
    )
    decisions = decided.where("decision_id IS NOT NULL").select(*gold.ORDER_DECISIONS.column_names)
    return decisions, decided.where("decision_id IS NULL").select("event_id", "seq", "looked_up")


# A row is a decision, or an event that one of them moved.
_LIVE_KEY = struct_of(**dict.fromkeys(LiveKey._fields, STRING))
_DECIDED_SCHEMA = T.StructType(
    [
        T.StructField("event_id", T.StringType()),
        T.StructField("seq", T.LongType()),
        T.StructField("looked_up", _LIVE_KEY),
        *(T.StructField(field.name, field.dataType) for field in gold.ORDER_DECISIONS.schema),
    ]
)
_DECIDED_ARROW = to_arrow_schema(_DECIDED_SCHEMA, timezone="UTC")


def rows_of_whole_days(bronze: Frames, carried: Frames, day: dt.date, unknown: Sequence[str]) -> DataFrame:
    """Return everything about a day in one frame: carried rows, topic configurations, events, answers."""
    events = day_events(bronze, day, unknown).withColumn("rank", F.lit(_EVENT_RANK))
    configs = topic_tables_of(events, bronze["topic_configs"], "namesrv_id")
    carried_rows = [
        codec_ready(carried[table.name].where("closed_by IS NULL"))
        .withColumn("rank", F.lit(_CARRIED_RANK))
        .withColumn("kind", F.lit(table.name))
        for table in gold.HISTORY_TABLES
        if table.name in carried and table is not gold.DATA_VERSION_HISTORY
    ]
    if unknown:
        carried_rows.append(carried[gold.PAST_KNOWLEDGE.name].drop("day").withColumn("rank", F.lit(_PAST_RANK)))
    return union_all(
        [
            events,
            configs.withColumn("rank", F.lit(_TOPIC_CONFIG_RANK)),
            observation_rows(bronze["route_observations"], day).withColumn("rank", F.lit(_OBSERVATION_RANK)),
            *carried_rows,
        ]
    )


def day_of_rows(rows: list[dict[str, Any]], context: NamesrvDay) -> Day:
    """Return the core's day of one name server from its `rows_of_whole_days`, as a list."""
    by_rank: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_rank.setdefault(row["rank"], []).append(row)
    topic_tables = {row["topic_config_digest"]: topic_table_of(row) for row in by_rank.get(_TOPIC_CONFIG_RANK, ())}
    carried: list[Interval] = [carried_over(interval_of(row["kind"], row)) for row in by_rank.get(_CARRIED_RANK, ())]
    past = [codec.fact_of(row) for row in by_rank.get(_PAST_RANK, ())]
    events = by_rank.get(_EVENT_RANK, [])

    def start() -> Registry:
        registry = Registry(context.namesrv.profile)
        registry.scan_halted = context.scan_halted
        registry.past = context.past_of(past)
        restored(registry, carried)
        return registry

    return Day(
        start,
        [
            TimedEvent(row["seq"], row["event_id"], row["effect_us"], codec.event_of(row, topic_tables))
            for row in events
        ],
        {row["event_id"]: row["received_us"] * NS_PER_US for row in events if row["received_us"] is not None},
        frozenset(row["event_id"] for row in events if row["arrival_us"] is not None),
        [observed_of(row) for row in by_rank.get(_OBSERVATION_RANK, ())],
        context.namesrv,
        context.schedule,
        context.namesrv_id,
        context.until_seq,
        context.from_seq,
    )


def _decision_row(namesrv_id: str, decided: Decided, day: dt.date) -> dict[str, Any]:
    race = decided.race
    channels = [getattr(timed.event, "channel_id", None) for timed in race.timed_events]
    return {
        "namesrv_id": namesrv_id,
        "decision_id": race.decision_id,
        "kind": race.kind,
        "effect_time": dt.datetime.fromtimestamp(race.timed_events[0].effect_us / 1e6, dt.timezone.utc),
        "channel_ids": sorted({channel for channel in channels if channel is not None}),
        "event_ids": [timed.event_id for timed in race.timed_events],
        "alternatives": [alternative.words for alternative in race.alternatives],
        "chosen": decided.chosen,
        "answers_for": len(decided.answers_for),
        "answers_against": len(decided.answers_against),
        "evidence_for": list(decided.answers_for),
        "evidence_against": list(decided.answers_against),
        "day": day,
    }


def _placed_row(placed: Placed) -> dict[str, Any]:
    looked_up = None if placed.looked_up is None else placed.looked_up._asdict()
    return {"event_id": placed.event_id, "seq": placed.seq, "looked_up": looked_up}

"""Hold every recorded answer against the replayed tables.

Reads   the day's slices of the history tables, event_outcomes, route_observations, and events with their responses
Gives   answer_checks and route_mismatches of that day
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.arrow_rows import rows_of
from jobs.frames import Frames, codec_ready, observation_rows
from jobs.tables import union_all
from namesrv_core.history.intervals import Interval, restored
from namesrv_core.history.timeline import timeline_of
from namesrv_core.history.verification import Observed, Verdict, verify
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from schemas import codec, gold, times
from schemas.intervals import interval_of
from schemas.table import BOOLEAN, STRING, struct_of

# Columns of answer_checks for answers that do not match, by their classification.
_COLUMN_OF = {"order_decision": "explained", "unknown_past": "unknown_past", "mismatched": "mismatched"}
_INTERVAL_RANK, _OUTCOME_RANK, _OBSERVATION_RANK, _RESPONSE_RANK = 0, 1, 2, 3
_ANSWER_COLUMNS = (
    "event_id",
    "code",
    "subject",
    "request_seq",
    "effect_time",
    "body",
    "response_fields",
    "remark",
    "day",
)
_UNUSED = (
    *("event_time", "source_file", "source_offset", "ingest_run", "one_way", "request_version", "compressed"),
    *("body_bytes", "operation", "queue_datas", "namespace", "config_key", "config_value"),
)
_VERDICT_SCHEMA = struct_of(
    namesrv_id=STRING,
    event_id=STRING,
    matched=BOOLEAN,
    same_order=BOOLEAN,
    same_bytes=BOOLEAN,
    in_flight=BOOLEAN,
    expected=STRING,
)
_VERDICT_ARROW = to_arrow_schema(_VERDICT_SCHEMA, timezone="UTC")


def verdicts_from(
    slices: Frames,
    outcomes: DataFrame,
    events: DataFrame,
    observations: DataFrame,
    responses: DataFrame,
    day: dt.date,
    namesrvs: Mapping[str, Namesrv],
) -> DataFrame:
    """Return one verdict per answer of `day`, rebuilt from the history slices alone.

    `events`: (event_id, arrival_us) of requests that got a response; what they changed may have happened from then on.
    `responses`: see `responses_of`.
    """
    rows = _verify_input(slices, outcomes, events, observations, responses, day)
    from_seq = times.day_start_seq(day)

    def verify_namesrv(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge one name server's answers; `key` is (namesrv_id,)."""
        namesrv_id = key[0].as_py()
        verdicts = _verdicts(rows_of(batches), namesrvs[namesrv_id], from_seq)
        yield pa.RecordBatch.from_pylist([_verdict_row(namesrv_id, v) for v in verdicts], schema=_VERDICT_ARROW)

    return (
        rows.where(F.col("namesrv_id").isin(sorted(namesrvs)))
        .repartition("namesrv_id")
        .groupBy("namesrv_id")
        .applyInArrow(verify_namesrv, _VERDICT_SCHEMA)
    )


def responses_of(bronze: Frames, day: dt.date) -> DataFrame:
    """Return the day's responses that say something about the registry: columns of an answer, and those of its event.

    A log that keeps no more of a response than its code (`response_fields` NULL) says nothing to judge.
    """
    told = (
        bronze[name]
        .where((F.col("day") == F.lit(day)) & F.col("response_fields").isNotNull() & F.col("code").isin(*codes))
        .withColumn("kind", F.lit(name))
        .withColumn("subject", F.col("broker_name"))
        .withColumn("request_seq", F.unix_micros("event_time") * NS_PER_US)
        .withColumnsRenamed({"response_remark": "remark", "response_body": "body"})
        .drop(*_UNUSED)
        for name, codes in codec.RESPONSE_TABLES.items()
    )
    return union_all(told)


def explained_answers_from(replayed: Frames, day: dt.date) -> DataFrame:
    """Return (event_id, classification, decision_id) of the answers of `day` that need not match.

    Those that another order explains; and those that showed, when they were given, nothing but what was not known yet.
    """
    today = F.col("day") == F.lit(day)
    by_order = replayed["order_decisions"].where(today)
    by_past = replayed["event_outcomes"].where(
        today & F.expr("operation = 'observed_answer' AND outcome = 'unknown_past'")
    )
    return union_all(
        [
            by_order.select(
                F.explode("evidence_against").alias("event_id"),
                F.lit("order_decision").alias("classification"),
                "decision_id",
            ),
            by_past.select(
                "event_id",
                F.lit("unknown_past").alias("classification"),
                F.lit(None).cast("string").alias("decision_id"),
            ),
        ]
    )


def judged_from(verdicts: DataFrame, observations: DataFrame, responses: DataFrame, explained: DataFrame) -> DataFrame:
    """Return the verdicts with their answers, the `classification` of those that do not match, and a `decision_id`.

    `explained`: see `explained_answers_from`. Both reports are made of these rows: persist them.
    """
    one_each = explained.groupBy("event_id").agg(
        F.min("classification").alias("classification"), F.min("decision_id").alias("decision_id")
    )
    answers = union_all(frame.select(*_ANSWER_COLUMNS) for frame in (observations, responses))
    judged = verdicts.join(answers, on="event_id", how="inner").join(F.broadcast(one_each), on="event_id", how="left")
    return judged.withColumn("classification", F.coalesce("classification", F.lit("mismatched")))


def answer_checks_from(judged: DataFrame) -> DataFrame:
    """Return the counts by name server, request code and day."""
    matched = F.col("matched")
    unmatched = {
        name: F.count_if(~matched & (F.col("classification") == classification)).alias(name)
        for classification, name in _COLUMN_OF.items()
    }
    return judged.groupBy("namesrv_id", "code", "day").agg(
        F.count("*").alias("answers"),
        F.count_if(matched).alias("matched"),
        F.count_if(matched & F.col("same_order")).alias("same_order"),
        F.count_if(matched & F.col("same_bytes")).alias("same_bytes"),
        F.count_if(matched & F.col("in_flight")).alias("in_flight"),
        *unmatched.values(),
    )


def route_mismatches_from(judged: DataFrame) -> DataFrame:
    """Return the answers that the registry does not give at any instant of their window, one row each."""
    return judged.where("NOT matched").select(
        "namesrv_id",
        "event_id",
        "code",
        "subject",
        F.timestamp_micros(F.expr("request_seq div 1000")).alias("request_time"),
        F.col("effect_time").alias("answer_time"),
        "classification",
        "decision_id",
        F.coalesce("body", "response_fields", "remark").alias("answered"),
        "expected",
        "day",
    )


def observed_of(row: Mapping[str, Any]) -> Observed:
    """Return the core's observation of a row of `observation_rows`."""
    return Observed(row["event_id"], row["request_seq"], row["seq"], codec.question_of(row), codec.answer_of(row))


def _verify_input(
    slices: Frames,
    outcomes: DataFrame,
    events: DataFrame,
    observations: DataFrame,
    responses: DataFrame,
    day: dt.date,
) -> DataFrame:
    changed = (
        outcomes.where(F.col("day") == F.lit(day))
        .where("changes > 0")
        .join(events, on="event_id", how="left")
        .select("namesrv_id", "seq", "operation", "arrival_us", F.lit(_OUTCOME_RANK).alias("rank"))
    )
    asked = observation_rows(observations, day).withColumn("rank", F.lit(_OBSERVATION_RANK))
    intervals = (
        codec_ready(slices[table.name].where(F.col("day") == F.lit(day)))
        .withColumn("rank", F.lit(_INTERVAL_RANK))
        .withColumn("kind", F.lit(table.name))
        for table in gold.HISTORY_TABLES
        if table is not gold.DATA_VERSION_HISTORY
    )
    told = responses.drop("day", "effect_time").withColumn("rank", F.lit(_RESPONSE_RANK))
    return union_all([asked, told, changed, *intervals])


def _verdicts(rows: Iterator[dict[str, Any]], namesrv: Namesrv, from_seq: int) -> list[Verdict]:
    intervals: list[Interval] = []
    observations: list[Observed] = []
    arrivals: dict[int, int] = {}
    starts: list[int] = []
    for row in rows:
        if row["rank"] == _INTERVAL_RANK:
            intervals.append(interval_of(row["kind"], row))
        elif row["rank"] == _OBSERVATION_RANK:
            observations.append(observed_of(row))
        elif row["rank"] == _RESPONSE_RANK:
            observations.append(codec.response_of(row))
        else:
            if row["arrival_us"] is not None:
                arrivals[row["seq"]] = row["arrival_us"] * NS_PER_US
            if row["operation"] == "namesrv_started":
                starts.append(row["seq"])
    registry = Registry(namesrv.profile)
    restored(registry, [interval for interval in intervals if interval.opened_at.seq < from_seq])
    timeline = timeline_of(intervals, from_seq, arrivals)
    return verify(registry, timeline, observations, namesrv, starts=starts)


def _verdict_row(namesrv_id: str, verdict: Verdict) -> dict[str, Any]:
    expected = verdict.expected
    return {
        "namesrv_id": namesrv_id,
        "event_id": verdict.observed.event_id,
        "matched": verdict.matched,
        "same_order": verdict.same_order,
        "same_bytes": verdict.same_bytes,
        "in_flight": verdict.in_flight,
        "expected": None if verdict.matched else (expected.body or codec.fields_json(expected) or expected.remark),
    }

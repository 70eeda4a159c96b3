"""Look for what speaks for a setting: in the answers and closes of a day, while the setting is open.

Reads   the bronze events and answers of a day, and the history slices of the day before
Gives   votes: how many answers and closes only one value explains, by name server, process and setting
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.arrow_rows import rows_of
from jobs.frames import Frames
from jobs.order import day_of_rows, rows_of_whole_days
from jobs.replay_unit import NamesrvDay
from jobs.settings import DaySettings
from namesrv_core.inference import evidence, settings
from namesrv_core.inference.races import Day
from namesrv_core.inference.settings import Setting, Value, Votes
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, CHANNEL_MAX_IDLE_MS, Namesrv, profile_named
from namesrv_wire.closing import EARLY_NS, LATE_NS

Rows = list[dict[str, Any]]
DELETION, IDLE_LIMIT = "delete_topic_with_broker_registration", "channel_max_idle_ms"
_LISTS = (206, 224, 311, 312, 313)
_VOTES_SCHEMA = (
    "namesrv_id STRING, life_seq BIGINT, setting STRING, value STRING, answers BIGINT, evidence ARRAY<STRING>"
)
_VOTES_ARROW = pa.schema(
    [
        ("namesrv_id", pa.string()),
        ("life_seq", pa.int64()),
        ("setting", pa.string()),
        ("value", pa.string()),
        ("answers", pa.int64()),
        ("evidence", pa.list_(pa.string())),
    ]
)


def votes_from(bronze: Frames, carried: Frames, known: DaySettings) -> dict[str, list[Votes]]:
    """Return what the day's answers and closes say about the settings that are open; one Spark job, none if none is."""
    parts = [
        part.where(F.col("namesrv_id").isin(names)).withColumn("setting", F.lit(setting))
        for setting, rows_of in _EVIDENCE.items()
        if (names := known.open(setting))
        for part in rows_of(bronze, carried, known.day)
    ]
    if not parts:
        return {}
    of_namesrv = dict(known.known)

    def vote(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the votes of one name server; `key` is (namesrv_id,)."""
        own = of_namesrv[key[0].as_py()]
        by_setting: dict[str, Rows] = {}
        for row in rows_of(batches):
            by_setting.setdefault(row["setting"], []).append(row)
        period_ms = profile_named(str(settings.settle(own)[0].value)).scan_period_ms
        cast = [v for name, rows in by_setting.items() for v in _VOTERS[name](rows, period_ms)]
        yield _votes_batch(key[0].as_py(), evidence.tally(cast, own.lives, own.statements))

    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    return _collected(rows.groupBy("namesrv_id").applyInArrow(vote, _VOTES_SCHEMA))


def candidates_from(bronze: Frames, known: DaySettings) -> dict[str, list[str]]:
    """Return, by setting that only a replay tells, the open name servers whose day may tell it.

    deleteTopicWithBrokerRegistration: a broker name registered several topic tables. The idle limit: a connection was
    closed after the default one. One Spark job, none if nothing is open.
    """
    today = F.col("day") == F.lit(known.day)
    registered = bronze["registrations"].where(today & F.col("refusal").isNull()).groupBy("namesrv_id", "broker_name")
    changed = registered.agg(F.count_distinct("topic_config_digest").alias("tables")).where("tables > 1")
    late = bronze["channel_events"].where(today & F.expr("kind = 'late_close'"))
    signs = {DELETION: changed, IDLE_LIMIT: late}
    parts = [
        rows.where(F.col("namesrv_id").isin(names)).select("namesrv_id", F.lit(setting).alias("setting")).distinct()
        for setting, rows in signs.items()
        if (names := known.open(setting))
    ]
    found: dict[str, list[str]] = {}
    if parts:
        for row in reduce(DataFrame.unionAll, parts).orderBy("namesrv_id").collect():
            found.setdefault(row["setting"], []).append(row["namesrv_id"])
    return found


def weighed_from(
    setting: str,
    names: Sequence[str],
    bronze: Frames,
    carried: Frames,
    known: DaySettings,
    contexts: Mapping[str, NamesrvDay],
) -> dict[str, list[Votes]]:
    """Return what the answers say about a setting that only a replay tells: two replays of each name server's day."""
    of_namesrv = {name: known.known[name] for name in names}
    unknown = [name for name in names if contexts[name].has_unknown_past]
    rows = rows_of_whole_days(bronze, carried, known.day, unknown).where(F.col("namesrv_id").isin(*names))

    def weigh(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Weigh the setting for one name server; `key` is (namesrv_id,)."""
        name = key[0].as_py()
        own = of_namesrv[name]
        incoming = list(rows_of(batches))
        days = _WEIGHED[setting](incoming, contexts[name], settings.settle(own))
        cast = evidence.weighed_votes(setting, days) if days else ()
        yield _votes_batch(name, evidence.tally(cast, own.lives, own.statements))

    ordered = rows.repartition("namesrv_id").sortWithinPartitions("namesrv_id", "rank", "seq", "event_id")
    return _collected(ordered.groupBy("namesrv_id").applyInArrow(weigh, _VOTES_SCHEMA))


def _days_of_deletion(rows: Rows, context: NamesrvDay, settled: list[Setting]) -> dict[Value, Day]:
    """Return the day without and with the deletion of topics that a registration leaves out; none if none does."""
    day = day_of_rows(rows, context)
    if not evidence.loses_topics(day.timed_events):
        return {}
    return {value: day._replace(namesrv=_assuming(value, settled, context)) for value in (False, True)}


def _days_of_idle_limit(rows: Rows, context: NamesrvDay, _: list[Setting]) -> dict[Value, Day]:
    """Return the day with the default limit, and with a longer one: the timer did nothing, the late packets were ends."""
    late = [row for row in rows if row.get("channel_kind") == "late_close"]
    silences = [evidence.Silence(r["seq"], r["event_id"], r["silent_ms"], "closed_late") for r in late]
    by_default = [row for row in rows if row.get("channel_kind") != "late_close"]
    by_longer = [row for row in rows if row.get("closed_by") != "timer"]
    longer_ms = evidence.longer_limit(silences)
    return {CHANNEL_MAX_IDLE_MS: day_of_rows(by_default, context), longer_ms: day_of_rows(by_longer, context)}


def _assuming(value: bool, settled: list[Setting], context: NamesrvDay) -> Namesrv:  # noqa: FBT001  either is tried
    assumed = [s._replace(value=value) if s.name == DELETION and s.source.is_open else s for s in settled]
    return settings.namesrv_of(assumed, context.from_seq)


_WEIGHED: dict[str, Callable[[Rows, NamesrvDay, list[Setting]], dict[Value, Day]]] = {
    DELETION: _days_of_deletion,
    IDLE_LIMIT: _days_of_idle_limit,
}


def _list_rows(codes: Iterable[int], bronze: Frames, _: Frames, day: dt.date) -> list[DataFrame]:
    asked = bronze["route_observations"].where((F.col("day") == F.lit(day)) & F.col("code").isin(*codes))
    refused = F.expr("response_code = 1 AND remark = 'disable'")
    answers = asked.where((F.col("response_code") == 0) | refused)
    return [answers.select("namesrv_id", "seq", "event_id", "code", refused.alias("present"))]


def _route_answers(bronze: Frames, day: dt.date) -> DataFrame:
    answers = bronze["route_observations"].where(
        (F.col("day") == F.lit(day)) & F.expr("code = 105 AND response_code = 0")
    )
    return answers.select("namesrv_id", "seq", "request_seq", "event_id", F.col("subject").alias("topic"), "body")


def _order_conf_rows(bronze: Frames, carried: Frames, day: dt.date) -> list[DataFrame]:
    """Return the topics' order configurations, and the routes of such topics or with an order configuration."""
    puts = bronze["admin_events"].where(
        (F.col("day") == F.lit(day)) & F.expr("code IN (100, 102) AND response_code = 0")
    )
    confs = puts.where(F.col("namespace") == ORDER_TOPIC_CONFIG).select(
        "namesrv_id",
        "seq",
        (F.unix_micros("event_time") * NS_PER_US).alias("request_seq"),
        F.col("config_key").alias("topic"),
        F.expr("code = 100 AND config_value IS NOT NULL").alias("present"),
    )
    if "kv_config_history" in carried:
        kept = carried["kv_config_history"].where("closed_by IS NULL AND config_value IS NOT NULL")
        kept = kept.where((F.col("namespace") == ORDER_TOPIC_CONFIG) & F.col("config_key").isNotNull())
        zero = F.lit(0).cast("bigint")
        confs = confs.unionAll(kept.select("namesrv_id", zero, zero, "config_key", F.lit(True)))
    topics = F.broadcast(confs.select("namesrv_id", "topic", F.lit(True).alias("known")).distinct())
    answers = _route_answers(bronze, day).join(topics, on=["namesrv_id", "topic"], how="left")
    return [confs, answers.where(F.col("known") | F.col("body").contains('"orderTopicConf"')).drop("known")]


def _acting_master_rows(bronze: Frames, carried: Frames, day: dt.date) -> list[DataFrame]:
    """Return who is a member of a group that allows acting masters, and routes with such a group and no write bit."""
    members = bronze["registrations"].where(
        (F.col("day") == F.lit(day)) & F.expr("enable_acting_master AND refusal IS NULL")
    )
    keys = ("namesrv_id", "broker_name", "broker_addr", "broker_id")
    members = members.groupBy(*keys).agg(F.min("seq").alias("seq"))
    if "broker_addr_history" in carried:
        kept = carried["broker_addr_history"].where("closed_by IS NULL AND enable_acting_master")
        members = members.unionAll(kept.select(*keys, F.lit(0).cast("bigint")))
    answers = _route_answers(bronze, day).where(F.col("body").contains('"enableActingMaster":true'))
    return [members, answers.where(F.col("body").rlike('"perm":[0145][,}]'))]


def _silence_rows(bronze: Frames, _: Frames, day: dt.date) -> list[DataFrame]:
    """Return how connections ended that were silent for the default limit or longer, and which did not end."""
    today = F.col("day") == F.lit(day)
    # A frozen server closes late what was idle: that speaks neither for nor against.
    on_time = F.expr(
        f"kind = 'idle' AND closed_by = 'namesrv' AND silent_ms BETWEEN {CHANNEL_MAX_IDLE_MS - EARLY_NS // NS_PER_MS} "
        f"AND {CHANNEL_MAX_IDLE_MS + LATE_NS // NS_PER_MS}"
    )
    late = F.expr("kind = 'late_close' AND closed_by = 'namesrv'")
    how = F.when(on_time, "closed_on_time").otherwise("closed_late").alias("how")
    ends = bronze["channel_events"].where(today & (on_time | late))
    ends = ends.select("namesrv_id", "seq", "event_id", "silent_ms", how)
    used = bronze["namesrv_events"].where(today & F.expr("kind = 'idle_limit_outlasted'"))
    silent_ms = F.lit(None).cast("bigint")
    return [ends.unionAll(used.select("namesrv_id", "seq", "event_id", silent_ms, F.lit("used")))]


def _expiry_rows(bronze: Frames, _: Frames, day: dt.date) -> list[DataFrame]:
    """Return closes by the server of brokers' channels that were silent for longer than the lease on them."""
    today = F.col("day") == F.lit(day)
    lease = F.max(F.coalesce("heartbeat_timeout_ms", F.lit(BROKER_CHANNEL_EXPIRED_MS))).alias("lease_ms")
    leases = (
        bronze["registrations"].where(today & F.col("refusal").isNull()).groupBy("namesrv_id", "channel_id").agg(lease)
    )
    closes = bronze["channel_events"].where(today & F.expr("kind = 'close' AND closed_by = 'namesrv'"))
    idle = bronze["channel_events"].where(today & F.expr("kind = 'idle'")).select("namesrv_id", "channel_id")
    closes = closes.join(idle, on=["namesrv_id", "channel_id"], how="left_anti").join(
        leases, on=["namesrv_id", "channel_id"]
    )
    late = closes.withColumn("silent_ms", F.col("silent_ms") - F.col("lease_ms")).where("silent_ms >= 0")
    return [late.select("namesrv_id", "seq", "event_id", "silent_ms")]


def _notification_rows(bronze: Frames, _: Frames, day: dt.date) -> list[DataFrame]:
    """Return what the server told brokers of the smallest id of their group, which it does with the option only."""
    told = bronze["namesrv_events"].where((F.col("day") == F.lit(day)) & F.expr("kind = 'min_broker_id_notified'"))
    return [told.select("namesrv_id", "seq", "event_id")]


_EVIDENCE: dict[str, Callable[[Frames, Frames, dt.date], list[DataFrame]]] = {
    "order_message_enable": _order_conf_rows,
    "support_acting_master": _acting_master_rows,
    "enable_all_topic_list": partial(_list_rows, _LISTS[:1]),
    "enable_topic_list": partial(_list_rows, _LISTS[1:]),
    "channel_max_idle_ms": _silence_rows,
    "scan_period_ms": _expiry_rows,
    "notify_min_broker_id_changed": _notification_rows,
}


def _answers_in(rows: Rows) -> list[evidence.RouteAnswer]:
    return [
        evidence.RouteAnswer(r["event_id"], r["request_seq"], r["seq"], r["topic"], r["body"])
        for r in rows
        if r["body"] is not None
    ]


def _order_message_votes(rows: Rows, _: int) -> Iterable[evidence.Vote]:
    confs = [
        evidence.OrderConf(r["topic"], r["request_seq"], r["seq"], r["present"]) for r in rows if r["body"] is None
    ]
    return evidence.order_message_votes(_answers_in(rows), confs)


def _acting_master_votes(rows: Rows, _: int) -> Iterable[evidence.Vote]:
    members = [
        evidence.Membership(r["seq"], r["broker_name"], r["broker_addr"], r["broker_id"])
        for r in rows
        if r["body"] is None and r["broker_id"] is not None
    ]
    return evidence.acting_master_votes(_answers_in(rows), members)


def _list_votes(rows: Rows, _: int) -> Iterable[evidence.Vote]:
    answers = (evidence.ListAnswer(r["seq"], r["event_id"], r["code"] == _LISTS[0], r["present"]) for r in rows)
    return evidence.topic_list_votes(answers)


def _idle_votes(rows: Rows, _: int) -> Iterable[evidence.Vote]:
    silences = [evidence.Silence(r["seq"], r["event_id"], r["silent_ms"] or 0, r["how"]) for r in rows]
    return evidence.idle_limit_votes(silences, CHANNEL_MAX_IDLE_MS)


def _scan_votes(rows: Rows, period_ms: int) -> Iterable[evidence.Vote]:
    expiries = [evidence.Expiry(r["seq"], r["event_id"], r["silent_ms"]) for r in rows]
    return evidence.scan_period_votes(expiries, period_ms)


def _notification_votes(rows: Rows, _: int) -> Iterable[evidence.Vote]:
    return (evidence.Vote("notify_min_broker_id_changed", True, r["seq"], r["event_id"]) for r in rows)


_VOTERS: dict[str, Callable[[Rows, int], Iterable[evidence.Vote]]] = {
    "order_message_enable": _order_message_votes,
    "support_acting_master": _acting_master_votes,
    "enable_all_topic_list": _list_votes,
    "enable_topic_list": _list_votes,
    "channel_max_idle_ms": _idle_votes,
    "scan_period_ms": _scan_votes,
    "notify_min_broker_id_changed": _notification_votes,
}


def _votes_batch(namesrv_id: str, votes: Iterable[Votes]) -> pa.RecordBatch:
    rows = [
        {
            "namesrv_id": namesrv_id,
            "life_seq": v.life_seq,
            "setting": v.name,
            "value": settings.text_of(v.value),
            "answers": v.answers,
            "evidence": list(v.evidence),
        }
        for v in votes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_VOTES_ARROW)


def _collected(votes: DataFrame) -> dict[str, list[Votes]]:
    found: dict[str, list[Votes]] = {}
    for row in votes.collect():
        name = row["setting"]
        value = settings.value_of(name, row["value"])
        vote = Votes(row["life_seq"], name, value, row["answers"], tuple(row["evidence"]))
        found.setdefault(row["namesrv_id"], []).append(vote)
    return found

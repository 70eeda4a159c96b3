"""Find what need not be replayed: heartbeats that change nothing, and brokers of which nothing else was heard all day.

Reads   the day's heartbeats and registrations, once; the rows that were open when the day began
Gives   the day's beats in buckets, whether each is without a gap, and when something may happen to a live entry

Sixty slots make a bucket, one bit each, and a slot is at most half a lease: where every slot between the first and the last
beat of a bucket has one, no lease can have ended. No sort: a bucket is one row of a hash aggregate.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs import units
from jobs.frames import Frames
from jobs.replay_unit import NamesrvDay
from jobs.tables import cut_short, union_all
from namesrv_core.inference.decisions import STALL_NS
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US, US_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Namesrv
from namesrv_core.machine.quiet import SLOTS, slot_seconds
from schemas.bronze import HEARTBEATS, REGISTRATIONS

PERIOD_US = 3_600_000_000
"""A live entry is replayed event by event, or as one run, for a period. Buckets divide it."""
_US_PER_S = 1_000_000
_NO_LEASE_SLOT_US = 60 * _US_PER_S
_LONGEST_LEASE_MS = 10**12  # 31 years
_BEAT_COLUMNS = {
    HEARTBEATS.name: ("cluster_name", "broker_name", "broker_addr", "code", "data_version"),
    REGISTRATIONS.name: (
        *("cluster_name", "broker_name", "broker_addr", "broker_id", "code", "data_version", "channel_id"),
        *("ha_server_addr", "enable_acting_master", "heartbeat_timeout_ms", "zone_name"),
        *("topic_config_digest", "filter_servers", "refusal"),
    ),
}
"""What a beat says, by table: beats that say the same do the same."""
BEATS = (HEARTBEATS, REGISTRATIONS)
_VERSION_PARTS = ("state_version", "timestamp", "counter")
MEASURES = ("bucket", "slots", "beats", "first_us", "last_us", "lag_ns", "period")
"""Columns of a bucket that are not what its beats say."""
# An event is under way from its arrival to its effect, and may race with what happens then; no longer, or it is a stall.
_MARGIN_US = 2 * STALL_NS // NS_PER_US


def beat_node() -> Column:
    """Return the node of a live entry or a beat, by which it belongs to its unit."""
    return units.key_node("a", "broker_addr").alias("node")


class Heard(NamedTuple):
    """The day's beats, read once: leases by address (`leases_from`) and buckets (`buckets_from`).

    `rows`: of the buckets; `beats` in them; `until_us`: when each name server's last beat took effect; `stalled`: the name
    servers that stood still for a while: what was under way then may have raced with anything.
    """

    leases: DataFrame
    buckets: DataFrame
    rows: int
    beats: int
    until_us: Mapping[str, int]
    stalled: frozenset[str]


def heard_of(bronze: Frames, live: DataFrame, day: dt.date, namesrvs: Mapping[str, Namesrv]) -> Heard:
    """Return the beats of `day`. `live`: the open rows of broker_live_history with which it starts."""
    leases = cut_short(leases_from(bronze, live, day, namesrvs))
    buckets = cut_short(buckets_from(bronze, day, leases))
    measured = (F.max(column).alias(column) for column in ("last_us", "lag_ns"))
    counted = buckets.groupBy("namesrv_id").agg(F.count("*").alias("rows"), F.sum("beats").alias("beats"), *measured)
    ends = counted.collect()
    rows, beats = (sum(row[column] for row in ends) for column in ("rows", "beats"))
    stalled = frozenset(row["namesrv_id"] for row in ends if (row["lag_ns"] or 0) >= STALL_NS)
    return Heard(leases, buckets, rows, beats, {row["namesrv_id"]: row["last_us"] for row in ends}, stalled)


def with_cluster(contexts: Mapping[str, NamesrvDay]) -> list[str]:
    """Return the name servers whose live entries are keyed with their cluster."""
    return sorted(name for name, context in contexts.items() if context.namesrv.profile.live_key_has_cluster)


def live_cluster(names: Sequence[str]) -> Column:
    """Return the cluster in the key of the live entry that a beat renews; `names`: those that key with their cluster."""
    return F.when(F.col("namesrv_id").isin(*names), F.col("cluster_name")).alias("live_cluster")


def eligible(contexts: Mapping[str, NamesrvDay]) -> list[str]:
    """Return the name servers whose quiet brokers need no replay, as far as is known before their beats are read.

    Not those with an unknown past (an answer may show anything), with another configuration in mid-day, without scans,
    or with deleteTopicWithBrokerRegistration (an unchanged registration may delete topics).
    """
    return sorted(
        name
        for name, context in contexts.items()
        if not (
            context.has_unknown_past
            or context.scan_halted
            or context.namesrv.later
            or context.namesrv.config.delete_topic_with_broker_registration
        )
    )


def leases_from(bronze: Frames, live: DataFrame, day: dt.date, namesrvs: Mapping[str, Namesrv]) -> DataFrame:
    """Return (namesrv_id, broker_addr, lease_ms, slot_us): the shortest lease that the address has or asks for that day.

    `live`: the open rows of broker_live_history. `slot_us` is NULL where the lease is too short for slots. A lease with which
    the name server's sum would overflow counts as none: it ends at once, or nobody here can say when.
    """
    default = F.lit(BROKER_CHANNEL_EXPIRED_MS)
    own = [name for name, namesrv in namesrvs.items() if namesrv.profile.own_heartbeat_timeout]
    asked = F.when(F.col("namesrv_id").isin(own), F.coalesce("heartbeat_timeout_ms", default)).otherwise(default)
    registered = bronze[REGISTRATIONS.name].where(F.col("day") == F.lit(day))
    found = union_all(
        [
            live.select("namesrv_id", "broker_addr", F.col("heartbeat_timeout_ms").alias("lease_ms")),
            registered.select("namesrv_id", "broker_addr", asked.alias("lease_ms")).distinct(),
        ]
    )
    lease_ms = F.when(~F.col("lease_ms").between(0, _LONGEST_LEASE_MS), 0).otherwise(F.col("lease_ms"))
    shortest = found.groupBy("namesrv_id", "broker_addr").agg(F.min(lease_ms).alias("lease_ms"))
    widths = sorted({seconds for seconds in map(slot_seconds, range(2_000, 120_001, 500)) if seconds}, reverse=True)
    slot = F.coalesce(*(F.when(F.col("lease_ms") >= 2_000 * s, F.lit(s * _US_PER_S)) for s in widths))
    return shortest.withColumn("slot_us", slot)


def buckets_from(bronze: Frames, day: dt.date, leases: DataFrame) -> DataFrame:
    """Return one row for each different beat and bucket.

    Beside what the beat says (NULL where its table has no such column): `kind`, `node`, `bucket` and `period`, `slots` (a bit
    each), `beats`, first and last time, `lag_ns`: the longest that an answered one took from its arrival to its effect.
    """
    widths = [row["slot_us"] for row in leases.where("slot_us IS NOT NULL").select("slot_us").distinct().collect()]
    return union_all(_buckets_of(bronze[t.name], t.name, day, leases, widths) for t in BEATS)


def _buckets_of(frame: DataFrame, kind: str, day: dt.date, leases: DataFrame, widths: Sequence[int]) -> DataFrame:
    rows = frame.where(F.col("day") == F.lit(day))
    slot_us = str(widths[0] if len(widths) == 1 else _NO_LEASE_SLOT_US)
    if len(widths) > 1:
        of_addr = F.broadcast(leases.select("namesrv_id", "broker_addr", "slot_us"))
        rows = rows.join(of_addr, on=["namesrv_id", "broker_addr"], how="left")
        slot_us = f"coalesce(slot_us, {_NO_LEASE_SLOT_US})"
    # The fields of a struct are keys of their own: a struct among the keys keeps Spark from its fast map.
    version = [F.col(f"data_version.{part}").alias(f"version_{part}") for part in _VERSION_PARTS]
    said = [c for c in _BEAT_COLUMNS[kind] if c != "data_version"]
    lag_ns = F.col("seq") - F.unix_micros("event_time") * NS_PER_US
    parts = [f"version_{part}" for part in _VERSION_PARTS]
    found = (
        rows.select(
            "namesrv_id",
            *said,
            *version,
            F.unix_micros("effect_time").alias("at_us"),
            F.expr(f"unix_micros(effect_time) DIV {slot_us}").alias("slot"),
            F.when(F.col("response_code").isNotNull(), lag_ns).alias("lag_ns"),
        )
        .groupBy("namesrv_id", *said, *parts, F.expr(f"slot DIV {SLOTS}").alias("bucket"))
        .agg(
            F.bit_or(F.expr(f"shiftleft(1L, CAST(slot % {SLOTS} AS INT))")).alias("slots"),
            F.count("*").alias("beats"),
            F.min("at_us").alias("first_us"),
            F.max("at_us").alias("last_us"),
            F.max("lag_ns").alias("lag_ns"),
        )
    )
    given = F.coalesce(*(F.col(part) for part in parts)).isNotNull()
    struct = F.struct(*(F.col(f"version_{part}").alias(part) for part in _VERSION_PARTS))
    return found.withColumns(
        {
            "data_version": F.when(given, struct),
            "kind": F.lit(kind),
            "node": beat_node(),
            "period": F.expr(f"first_us DIV {PERIOD_US}"),
        }
    ).drop(*parts)


def spans_from(buckets: DataFrame, leases: DataFrame, live: DataFrame, contexts: Mapping[str, NamesrvDay]) -> DataFrame:
    """Return one row for each live entry and bucket, and one for the state in which the day begins.

    `unbroken`: no lease can have ended since the beat before the bucket, nor in it. `ends_us`: the lease that the
    bucket's last beat renewed ends then, before the next beat or before the end of what is known; NULL: it does not.
    """
    in_key = live_cluster(with_cluster(contexts))
    until_ms = F.create_map(*(F.lit(v) for n, c in contexts.items() for v in (n, c.until_seq // NS_PER_MS)))
    of_entry = Window.partitionBy("namesrv_id", "live_cluster", "node").orderBy("first_us")
    begins = live.select(
        "namesrv_id",
        in_key,
        beat_node(),
        F.unix_micros("last_update_time").alias("first_us"),
        F.unix_micros("last_update_time").alias("last_us"),
        F.lit(0).cast("bigint").alias("slots"),
        F.lit(True).alias("begins"),
    )
    beaten = buckets.groupBy("namesrv_id", in_key, "node", "bucket").agg(
        F.min("first_us").alias("first_us"), F.max("last_us").alias("last_us"), F.bit_or("slots").alias("slots")
    )
    of_addr = leases.select("namesrv_id", beat_node(), "lease_ms", "slot_us")
    rows = union_all([begins, beaten]).join(F.broadcast(of_addr), on=["namesrv_id", "node"], how="left")
    first_ms, last_ms = F.expr(f"first_us DIV {US_PER_MS}"), F.expr(f"last_us DIV {US_PER_MS}")
    silent_ms = first_ms - F.lag(last_ms).over(of_entry)
    next_ms = F.coalesce(F.lead(first_ms).over(of_entry), until_ms[F.col("namesrv_id")])
    # The bits of a bucket are one run of ones if adding the lowest of them carries past all the others.
    contiguous = F.expr("slots & (slots + (slots & -slots)) = 0") & F.col("slot_us").isNotNull()
    connected = F.coalesce(silent_ms <= F.col("lease_ms"), F.lit(False))
    return rows.select(
        "namesrv_id",
        "live_cluster",
        "node",
        "bucket",
        "first_us",
        "last_us",
        F.coalesce("begins", contiguous & connected).alias("unbroken"),
        F.when(next_ms - last_ms > F.col("lease_ms"), (last_ms + F.col("lease_ms")) * US_PER_MS).alias("ends_us"),
    )


def disturbances_from(spans: DataFrame, contexts: Mapping[str, NamesrvDay]) -> DataFrame:
    """Return (namesrv_id, node, from_us, to_us): when something may happen to a live entry, for all that its beats tell."""
    longest_us = 2 * max(context.namesrv.scan_period_ms for context in contexts.values()) * US_PER_MS + _US_PER_S
    broken = {"from_us": F.col("first_us"), "to_us": F.col("last_us")}
    ended = {"from_us": F.col("ends_us"), "to_us": F.col("ends_us") + longest_us}
    found = [spans.where("NOT unbroken").withColumns(broken), spans.where("ends_us IS NOT NULL").withColumns(ended)]
    return union_all(found).select("namesrv_id", "node", "from_us", "to_us")


def periods_of(disturbances: DataFrame) -> DataFrame:
    """Return (namesrv_id, unit, period) of disturbances (namesrv_id, unit, from_us, to_us), with a margin on both sides."""
    first, last = f"(from_us - {_MARGIN_US}) DIV {PERIOD_US}", f"(to_us + {_MARGIN_US}) DIV {PERIOD_US}"
    return disturbances.select(
        "namesrv_id", "unit", F.explode(F.sequence(F.expr(first), F.expr(last))).alias("period")
    ).distinct()


def missing_topics_from(buckets: DataFrame, topic_queues: DataFrame, topic_configs: DataFrame) -> DataFrame:
    """Return (namesrv_id, node) of those who register a topic that their broker name does not have: 5.x brings it back.

    `topic_queues`: the open rows of topic_queue_history. Names are compared by their sum of hashes first, since nearly
    always all are there and no others.
    """
    registered = (
        buckets.where("topic_config_digest IS NOT NULL")
        .select("namesrv_id", "node", "broker_name", "topic_config_digest")
        .distinct()
    )
    listed = topic_configs.select("topic_config_digest", F.array_distinct("topics.topic").alias("listed"))
    wanted = registered.join(listed, on="topic_config_digest", how="inner").withColumns(
        {"number": F.size("listed"), "sum": F.expr("aggregate(listed, 0L, (s, t) -> s ^ xxhash64(t))")}
    )
    has = topic_queues.groupBy("namesrv_id", "broker_name").agg(
        F.count("*").cast("int").alias("number"), F.bit_xor(F.xxhash64("topic")).alias("sum")
    )
    unlike = wanted.join(has, on=["namesrv_id", "broker_name", "number", "sum"], how="left_anti")
    asked = unlike.select("namesrv_id", "node", "broker_name", F.explode("listed").alias("topic"))
    found = topic_queues.select("namesrv_id", "broker_name", "topic")
    same = [asked[c].eqNullSafe(found[c]) for c in ("namesrv_id", "broker_name", "topic")]
    return asked.join(found, on=same, how="left_anti").select("namesrv_id", "node").distinct()

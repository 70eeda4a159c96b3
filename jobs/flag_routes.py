"""What changed in the routes that clients see, and which topics could not be served: one sweep over the rows of each topic.

Reads   the slices of the days, `registrations`, `topic_configs`
Gives   the rows of route_changes and orphaned_topics
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.flag_sweep import SWEPT_SCHEMA, sweeper
from jobs.frames import of_packs, pack_of
from jobs.session import shuffle_partitions
from jobs.tables import union_all
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.profile import Namesrv

_LAST_IN_STEP = 2**31 - 1
# Opened on the day of its slice, or closed.
_IS_NEWS = f"closed_by IS NOT NULL OR opened_at.seq >= unix_micros(CAST(day AS TIMESTAMP)) * {NS_PER_US}"


def stirred_topics_from(
    slices: Mapping[str, DataFrame], reported: DataFrame, carried: Iterable[DataFrame]
) -> DataFrame:
    """Return the topics (namesrv_id, topic) whose routes may have changed, or that may be orphaned, on the days of `slices`.

    Of any other, no row was opened or closed, none was missing in a registration (`reported`), and none was orphaned before
    (`carried`).
    """
    new = {name: frame.where(_IS_NEWS) for name, frame in slices.items() if "opened_at" in frame.columns}
    groups = slices["broker_addr_history"].select("namesrv_id", "broker_addr", "broker_name").distinct()
    addrs = union_all(
        new[name].select("namesrv_id", "broker_addr") for name in ("broker_live_history", "filter_server_history")
    ).distinct()
    names = new["broker_addr_history"].select("namesrv_id", "broker_name")
    names = names.unionAll(_tied(groups, addrs, "broker_addr").select("namesrv_id", "broker_name")).distinct()
    held = slices["topic_queue_history"].select("namesrv_id", "topic", "broker_name")
    found = [
        new["topic_queue_history"].select("namesrv_id", "topic"),
        _tied(held, names, "broker_name").select("namesrv_id", "topic"),
        new["topic_queue_mapping_history"].select("namesrv_id", "topic"),
        _order_confs(new).select("namesrv_id", "topic"),
        reported.where("NOT listed").select("namesrv_id", "topic"),
        *(frame.select("namesrv_id", "topic") for frame in carried),
    ]
    return union_all(found).distinct()


def of_topic(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the rows (with `topic`) of `topics` (namesrv_id, topic)."""
    return _tied(rows, topics, "topic")


def of_topics(slices: Mapping[str, DataFrame], topics: DataFrame) -> dict[str, DataFrame]:
    """Return the slices with the rows of `topics` only, in the tables that are about topics."""
    about = {name: of_topic(slices[name], topics) for name in ("topic_queue_history", "topic_queue_mapping_history")}
    keys = topics.withColumnRenamed("topic", "config_key")
    return {**slices, **about, "kv_config_history": _tied(slices["kv_config_history"], keys, "config_key")}


def _tied(rows: DataFrame, keys: DataFrame, column: str) -> DataFrame:
    """Return the rows whose name server and `column` are among `keys`; a NULL is a value like others."""
    same = (F.col("r.namesrv_id") == F.col("k.namesrv_id")) & F.col(f"r.{column}").eqNullSafe(F.col(f"k.{column}"))
    return rows.alias("r").join(F.broadcast(keys.alias("k")), same, "left_semi")


def _order_confs(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the order configurations with their `topic`, and their value as `text`."""
    confs = slices["kv_config_history"].where(
        (F.col("namespace") == ORDER_TOPIC_CONFIG) & F.col("config_key").isNotNull()
    )
    return confs.withColumnsRenamed({"config_key": "topic", "config_value": "text"})


def route_rows_from(slices: Mapping[str, DataFrame]) -> list[DataFrame]:
    """Return the rows that routes are made of, once for each topic: topic, table, key and value, interval."""
    queues = slices["topic_queue_history"]
    held = queues.select("namesrv_id", "day", "topic", "broker_name").distinct()
    groups = _for_keys(slices["broker_addr_history"], held, "broker_name")
    addrs = groups.select("namesrv_id", "day", "topic", "broker_addr").distinct()
    live = _for_keys(slices["broker_live_history"], addrs, "broker_addr")
    filters = _for_keys(slices["filter_server_history"], addrs, "broker_addr")
    return [
        _rows("topic_queue_table", queues, "read_queue_nums", "write_queue_nums", "perm", "topic_sys_flag"),
        _rows("broker_addr_table", groups, "broker_id", "enable_acting_master", "zone_name"),
        _rows("broker_live_table", live),
        _rows("filter_server_table", filters, "filter_servers"),
        _rows("kv_config_table", _order_confs(slices), "text"),
        _rows(
            "topic_queue_mapping_info_table",
            slices["topic_queue_mapping_history"].withColumnsRenamed({"bname": "broker_name", "curr_id_map": "text"}),
            *("total_queues", "epoch", "dirty", "scope", "text"),
        ),
    ]


def reported_rows_from(
    slices: Mapping[str, DataFrame], bronze: Mapping[str, DataFrame], days: Iterable[dt.date]
) -> DataFrame:
    """Return whether each topic of a broker name is listed by its master's registrations of the days.

    Only accepted registrations count, and only those whose topics differ from the one before. A registration
    with one topic reports a change of that topic and says nothing about others; nor does one of several with the same
    data version, into which a broker may split its topics (5.x). `spark.catalog.clearCache()` when the rows were used.
    """
    version = F.coalesce(F.to_json("data_version"), "event_id")  # no version is nobody else's version
    one_version = Window.partitionBy("namesrv_id", "broker_name", "day", version)
    full_digest = F.when(F.col("topic_count") > 1, F.col("topic_config_digest"))
    in_order = Window.partitionBy("namesrv_id", "broker_name", "day").orderBy("seq")
    refused = slices["event_outcomes"].where("outcome NOT IN ('applied', 'refreshed')")
    registrations = (
        bronze["registrations"]
        .where(F.col("day").isin(list(days)) & F.expr("broker_id = 0 AND refusal IS NULL AND topic_count > 0"))
        .join(refused, ["namesrv_id", "day", "event_id"], "left_anti")
        .withColumn("parts", F.size(F.collect_set(full_digest).over(one_version)))
        .where("parts <= 1")
        .withColumn("digest_before", F.lag("topic_config_digest").over(in_order))
        .where("NOT topic_config_digest <=> digest_before")
        .select(
            "namesrv_id",
            "day",
            "broker_name",
            "seq",
            "event_id",
            "effect_time",
            "topic_count",
            "topic_config_digest",
        )
        # Two windows over all registrations of the day: once is enough for both of the joins below.
        .persist()
    )
    listed = registrations.join(
        bronze["topic_configs"].select("topic_config_digest", "topics"), "topic_config_digest"
    ).select("namesrv_id", "seq", F.explode("topics.topic").alias("topic"), F.lit(True).alias("listed"))
    held = slices["topic_queue_history"].select("namesrv_id", "day", "topic", "broker_name")
    reports = (
        held.join(registrations, ["namesrv_id", "day", "broker_name"])
        # Only now: nearly all queues are of brokers that registered nothing new.
        .distinct()
        .join(listed.distinct(), ["namesrv_id", "seq", "topic"], "left")
        .where("listed OR topic_count > 1")
    )
    return reports.select(
        "namesrv_id",
        "topic",
        "day",
        F.lit("reported").alias("table"),
        "broker_name",
        F.coalesce("listed", F.lit(False)).alias("listed"),
        F.unix_micros("effect_time").alias("from_us"),
        F.col("event_id").alias("opened_by"),
        F.struct("seq", F.lit(_LAST_IN_STEP).alias("no")).alias("opened_at"),
    )


def open_orphans_from(orphaned_topics: DataFrame, first_day: dt.date) -> DataFrame:
    """Return the intervals that each name server's last slice before `first_day` left open."""
    earlier = orphaned_topics.where(F.col("day") < F.lit(first_day))
    last = Window.partitionBy("namesrv_id")
    return (
        earlier.withColumn("last_day", F.max("day").over(last))
        .where("day = last_day AND valid_to IS NULL")
        .select(
            "namesrv_id",
            "topic",
            "day",
            F.lit("orphan").alias("table"),
            "broker_name",
            F.col("reason").alias("text"),
            F.unix_micros("valid_from").alias("from_us"),
            "opened_by",
        )
    )


def swept_from(rows: Iterable[DataFrame], namesrvs: Mapping[str, Namesrv]) -> DataFrame:
    """Return what the sweep finds for each topic of each name server: rows of kind 'change' and 'orphan'."""
    united = union_all(rows)
    packs, topic = shuffle_partitions(united.sparkSession), ("namesrv_id", "topic")
    placed = united.withColumn("pack", pack_of(packs, *topic))
    return of_packs(placed, packs, topic, sweeper(dict(namesrvs)), SWEPT_SCHEMA)


def route_changes_from(swept: DataFrame) -> DataFrame:
    """Return the rows of `route_changes`."""
    return swept.where("kind = 'change'").select(
        "namesrv_id",
        "topic",
        "seq",
        F.timestamp_micros("from_us").alias("effect_time"),
        F.col("opened_by").alias("caused_by"),
        F.col("what").alias("change"),
        "route_before",
        "route_after",
        "day",
    )


def orphaned_topics_from(swept: DataFrame) -> DataFrame:
    """Return the rows of `orphaned_topics`."""
    return swept.where("kind = 'orphan'").select(
        "namesrv_id",
        "topic",
        "broker_name",
        F.col("what").alias("reason"),
        F.timestamp_micros("from_us").alias("valid_from"),
        F.timestamp_micros("to_us").alias("valid_to"),
        "opened_by",
        "closed_by",
        "day",
    )


def _for_keys(rows: DataFrame, keys: DataFrame, column: str) -> DataFrame:
    """Return `rows` once for each topic in `keys` (namesrv_id, day, topic, `column`) with its key."""
    same = (
        (F.col("r.namesrv_id") == F.col("k.namesrv_id"))
        & (F.col("r.day") == F.col("k.day"))
        & F.col(f"r.{column}").eqNullSafe(F.col(f"k.{column}"))
    )
    return rows.alias("r").join(keys.alias("k"), same).select("r.*", "k.topic")


def _rows(table: str, rows: DataFrame, *values: str) -> DataFrame:
    named = [name for name in ("broker_name", "broker_addr", "cluster_name") if name in rows.columns]
    return rows.select(
        "namesrv_id",
        "topic",
        "day",
        F.lit(table).alias("table"),
        *named,
        *values,
        F.unix_micros("valid_from").alias("from_us"),
        F.unix_micros("valid_to").alias("to_us"),
        "opened_by",
        "closed_by",
        "opened_at",
        "closed_at",
    )

"""Say what an operator should know about a day: route changes, expired brokers, orphaned topics, findings.

Reads   the slices of the days, `event_outcomes`, `registrations`, `topic_configs`
Gives   route_changes, expired_brokers, orphaned_topics, findings for the same days

Everything is SQL, but one sweep over the rows of each topic, which is `namesrv_core.route_history`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from namesrv_core.kv import ORDER_TOPIC_CONFIG
from namesrv_core.profile import Namesrv
from namesrv_core.route_history import (
    Member,
    Orphan,
    Position,
    RouteHistory,
    RouteRow,
    sweep_route,
)
from namesrv_core.rows import KvValue, LiveKey, QueueData, TopicQueueMappingInfo
from schemas import gold as tables
from schemas.gold import EXPIRED_BROKERS, FINDINGS, ORPHANED_TOPICS, ROUTE_CHANGES
from schemas.table import Table
from schemas.views import finding_queries

_DAY = dt.timedelta(days=1)
_EPOCH = dt.date(1970, 1, 1)
_DAY_US = 86_400_000_000
_LAST_IN_STEP = 2**31 - 1
_UTF8, _INT64 = pa.string(), pa.int64()
_SWEPT = pa.schema(
    [
        pa.field("namesrv_id", _UTF8),
        pa.field("topic", _UTF8),
        pa.field("day", pa.date32()),
        pa.field("kind", _UTF8),
        pa.field("seq", _INT64),
        pa.field("from_us", _INT64),
        pa.field("opened_by", _UTF8),
        pa.field("to_us", _INT64),
        pa.field("closed_by", _UTF8),
        pa.field("what", _UTF8),
        pa.field("broker_name", _UTF8),
        pa.field("route_before", _UTF8),
        pa.field("route_after", _UTF8),
    ]
)
_SWEPT_DDL = (
    "namesrv_id STRING, topic STRING, day DATE, kind STRING, seq BIGINT, from_us BIGINT, opened_by STRING, "
    "to_us BIGINT, closed_by STRING, what STRING, broker_name STRING, route_before STRING, route_after STRING"
)
Row = dict[str, Any]


class UnknownNamesrvError(LookupError):
    """Rows of a name server about which nothing was said."""


def flag(
    spark: SparkSession,
    gold: Mapping[str, DataFrame],
    bronze: Mapping[str, DataFrame],
    namesrvs: Mapping[str, Namesrv],
    days: Iterable[dt.date],
) -> dict[str, DataFrame]:
    """Return `route_changes`, `expired_brokers`, `orphaned_topics` and `findings` of `days`.

    `gold`: the history tables and `event_outcomes`; `orphaned_topics`, if given, tells when what was open
    before the first day began. `bronze`: `registrations` and `topic_configs`. `days` follow each other, but
    days without slices may be missing. The sweep runs here, once; the rest runs when it is written. The
    slices that many findings read are persisted: `spark.catalog.clearCache()` when all is written.
    """
    wanted = sorted(set(days))
    slices = {
        table.name: gold[table.name].where(F.col("day").isin(wanted))
        for table in (*tables.HISTORY_TABLES, tables.EVENT_OUTCOMES)
    }
    for name in ("topic_queue_history", "broker_addr_history", "broker_live_history", "event_outcomes"):
        slices[name] = slices[name].persist(StorageLevel.MEMORY_AND_DISK)
    rows = [*route_rows_from(slices), reported_rows_from(slices, bronze, wanted)]
    if ORPHANED_TOPICS.name in gold and wanted:
        rows.append(open_orphans_from(gold[ORPHANED_TOPICS.name], wanted[0]))
    # Checkpoints also cut the plans short, which eighteen queries would otherwise analyse again and again.
    swept = swept_from(rows, namesrvs).localCheckpoint()
    expired = expired_brokers_from(slices).localCheckpoint(eager=False)
    found = {
        ROUTE_CHANGES.name: _typed(route_changes_from(swept), ROUTE_CHANGES),
        ORPHANED_TOPICS.name: _typed(orphaned_topics_from(swept), ORPHANED_TOPICS),
        EXPIRED_BROKERS.name: _typed(expired, EXPIRED_BROKERS),
    }
    wipes = gold[tables.EVENT_OUTCOMES.name].where("operation = 'wipe_write_perm'")
    found[FINDINGS.name] = _typed(findings_from(spark, {**slices, **found, "wipes": wipes}), FINDINGS)
    return found


# -- the sweep ------------------------------------------------------------------------------------------


def route_rows_from(slices: Mapping[str, DataFrame]) -> list[DataFrame]:
    """Return the rows that routes are made of, once for each topic: topic, table, key and value, interval."""
    queues = slices["topic_queue_history"]
    held = queues.select("namesrv_id", "day", "topic", "broker_name").distinct()
    groups = _for_keys(slices["broker_addr_history"], held, "broker_name")
    addrs = groups.select("namesrv_id", "day", "topic", "broker_addr").distinct()
    live = _for_keys(slices["broker_live_history"], addrs, "broker_addr")
    filters = _for_keys(slices["filter_server_history"], addrs, "broker_addr")
    order_confs = slices["kv_config_history"].where(
        (F.col("namespace") == ORDER_TOPIC_CONFIG) & F.col("config_key").isNotNull()
    )
    return [
        _rows("topic_queue_table", queues, "read_queue_nums", "write_queue_nums", "perm", "topic_sys_flag"),
        _rows("broker_addr_table", groups, "broker_id", "enable_acting_master", "zone_name"),
        _rows("broker_live_table", live),
        _rows("filter_server_table", filters, "filter_servers"),
        _rows(
            "kv_config_table",
            order_confs.withColumnsRenamed({"config_key": "topic", "config_value": "text"}),
            "text",
        ),
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
    data version, into which a broker may split its topics (5.x).
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
    )
    listed = registrations.join(
        bronze["topic_configs"].select("topic_config_digest", "topics"), "topic_config_digest"
    ).select("namesrv_id", "seq", F.explode("topics.topic").alias("topic"), F.lit(True).alias("listed"))
    held = slices["topic_queue_history"].select("namesrv_id", "day", "topic", "broker_name").distinct()
    reports = (
        held.join(registrations, ["namesrv_id", "day", "broker_name"])
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
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), rows)
    return together.groupBy("namesrv_id", "topic").applyInArrow(_sweeper(dict(namesrvs)), _SWEPT_DDL)


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


def _sweeper(
    namesrvs: dict[str, Namesrv],
) -> Callable[[tuple[Any, ...], Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def sweep(key: tuple[Any, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        namesrv_id, topic = (part.as_py() for part in key)
        if namesrv_id not in namesrvs:
            raise UnknownNamesrvError(f"name server {namesrv_id}: rows, but no profile and configuration; give both")
        rows = [row for batch in batches for row in batch.to_pylist()]
        found = list(_swept_rows(namesrv_id, topic, rows, namesrvs[namesrv_id]))
        yield pa.RecordBatch.from_pylist(found, schema=_SWEPT)

    return sweep


def _swept_rows(namesrv_id: str, topic: str | None, rows: list[Row], namesrv: Namesrv) -> Iterator[Row]:
    """Yield the findings of one topic day by day; what is open at the end of a day is handed to the next."""
    orphans = tuple(
        Orphan(row["text"], row["broker_name"], row["from_us"], row["opened_by"])
        for row in rows
        if row["table"] == "orphan"
    )
    by_day: dict[dt.date, list[RouteRow]] = {}
    for row in rows:
        if row["table"] != "orphan":
            by_day.setdefault(row["day"], []).append(_route_row(row, namesrv))
    for day in sorted(by_day):
        start_us = (day - _EPOCH) // _DAY * _DAY_US
        history = sweep_route(topic, by_day[day], namesrv, start_us=start_us, open_orphans=orphans)
        orphans = history.orphans
        for found in _day_rows(history):
            yield {"namesrv_id": namesrv_id, "topic": topic, "day": day, **found}


def _day_rows(history: RouteHistory) -> Iterator[Row]:
    for change in history.changes:
        yield {
            "kind": "change",
            "seq": change.seq,
            "from_us": change.effect_us,
            "opened_by": change.caused_by,
            "what": change.change,
            "route_before": change.route_before,
            "route_after": change.route_after,
        }
    for orphan in history.orphans:
        yield {
            "kind": "orphan",
            "from_us": orphan.from_us,
            "opened_by": orphan.opened_by,
            "to_us": orphan.to_us,
            "closed_by": orphan.closed_by,
            "what": orphan.reason,
            "broker_name": orphan.broker_name,
        }


def _route_row(row: Row, namesrv: Namesrv) -> RouteRow:
    key, value = _VALUES[row["table"]](row, namesrv)
    opened = Position(row["opened_at"]["seq"], row["opened_at"]["no"], row["opened_by"], row["from_us"])
    closed = None
    if row["closed_at"] is not None:
        closed = Position(row["closed_at"]["seq"], row["closed_at"]["no"], row["closed_by"], row["to_us"])
    return RouteRow(row["table"], key, value, opened, closed)


def _live_key(row: Row, namesrv: Namesrv) -> LiveKey:
    return LiveKey(row["cluster_name"] if namesrv.profile.live_key_has_cluster else None, row["broker_addr"])


_VALUES: dict[str, Callable[[Row, Namesrv], tuple[object, object]]] = {
    "topic_queue_table": lambda row, _: (
        row["broker_name"],
        QueueData(row["read_queue_nums"], row["write_queue_nums"], row["perm"], row["topic_sys_flag"]),
    ),
    "broker_addr_table": lambda row, _: (
        None,
        Member(
            row["broker_name"],
            row["broker_id"],
            row["broker_addr"],
            row["cluster_name"],
            row["enable_acting_master"],
            row["zone_name"],
        ),
    ),
    "broker_live_table": lambda row, namesrv: (_live_key(row, namesrv), None),
    "filter_server_table": lambda row, namesrv: (_live_key(row, namesrv), tuple(row["filter_servers"])),
    "kv_config_table": lambda row, _: (None, KvValue(row["text"])),
    "topic_queue_mapping_info_table": lambda row, _: (
        row["broker_name"],
        TopicQueueMappingInfo(
            row["topic"],
            row["broker_name"],
            row["total_queues"],
            row["epoch"],
            row["dirty"],
            row["scope"],
            row["text"],
        ),
    ),
    "reported": lambda row, _: (row["broker_name"], row["listed"]),
}


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


# -- the rest is SQL ------------------------------------------------------------------------------------


def expired_brokers_from(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of `expired_brokers`: live entries removed by a scan or an idle close."""
    live, queues, groups = (
        slices[name].alias(alias)
        for name, alias in (
            ("broker_live_history", "l"),
            ("topic_queue_history", "q"),
            ("broker_addr_history", "g"),
        )
    )
    removals = slices["event_outcomes"].where("operation IN ('scan', 'channel_idle')").alias("o")
    returns = slices["broker_live_history"].alias("r")
    lost = (
        queues.join(
            groups,
            F.expr(
                "q.namesrv_id = g.namesrv_id AND q.day = g.day AND q.closed_by = g.closed_by "
                "AND q.broker_name <=> g.broker_name"
            ),
        )
        .groupBy("g.namesrv_id", "g.day", "g.closed_by", "g.broker_addr")
        .agg(
            F.sort_array(F.collect_set("q.topic")).alias("topics_lost"),
            F.min("g.cluster_name").alias("cluster_name"),
        )
        .alias("t")
    )
    clusters = (
        slices["broker_addr_history"]
        .groupBy("namesrv_id", "day", "broker_name", "broker_addr")
        .agg(F.min("cluster_name").alias("cluster_name"))
        .alias("c")
    )
    back = F.expr(
        "min(IF(r.opened_at.seq > l.closed_at.seq, struct(r.opened_at.seq, r.valid_from, r.opened_by), NULL))"
    )
    return (
        live.where("closed_by IS NOT NULL")
        .join(removals, F.expr("o.namesrv_id = l.namesrv_id AND o.day = l.day AND o.event_id = l.closed_by"))
        .join(
            returns,
            F.expr(
                "r.namesrv_id = l.namesrv_id AND r.day = l.day "
                "AND r.cluster_name <=> l.cluster_name AND r.broker_addr <=> l.broker_addr"
            ),
        )
        .groupBy(
            *(
                "l.namesrv_id",
                "l.day",
                "l.cluster_name",
                "l.broker_name",
                "l.broker_addr",
                "l.closed_by",
                "l.valid_to",
            ),
            *("l.last_update_time", "l.heartbeat_timeout_ms", "o.operation"),
        )
        .agg(back.alias("back"))
        .alias("l")
        .join(
            lost,
            F.expr(
                "t.namesrv_id = l.namesrv_id AND t.day = l.day "
                "AND t.closed_by = l.closed_by AND t.broker_addr <=> l.broker_addr"
            ),
            "left",
        )
        .join(
            clusters,
            F.expr(
                "c.namesrv_id = l.namesrv_id AND c.day = l.day "
                "AND c.broker_name <=> l.broker_name AND c.broker_addr <=> l.broker_addr"
            ),
            "left",
        )
        .selectExpr(
            "l.namesrv_id",
            "coalesce(l.cluster_name, t.cluster_name, c.cluster_name) AS cluster_name",
            "l.broker_name",
            "l.broker_addr",
            "IF(l.operation = 'scan', 'scan', 'idle_channel') AS cause",
            "l.last_update_time AS last_beat_time",
            "l.heartbeat_timeout_ms",
            "l.valid_to AS removed_time",
            "l.closed_by AS removed_by",
            "timestampdiff(MILLISECOND, l.last_update_time, l.valid_to) AS detection_lag_ms",
            "l.back.valid_from AS returned_time",
            "l.back.opened_by AS returned_by",
            "coalesce(t.topics_lost, CAST(array() AS ARRAY<STRING>)) AS topics_lost",
            "l.day",
        )
    )


def findings_from(spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of `findings`, a query for each code. `frames`: gold tables and `wipes`."""
    found = []
    for query in finding_queries():
        used: dict[str, Any] = {name: frame for name, frame in frames.items() if "{" + name + "}" in query.sql}
        found.append(spark.sql(query.sql, **used))
    return reduce(DataFrame.unionByName, found)


def _typed(rows: DataFrame, table: Table) -> DataFrame:
    """Return `rows` with the columns of `table`, in its order, types and comments."""
    return rows.select(
        *[F.col(c.name).cast(_nullable(c.type)).alias(c.name, metadata={"comment": c.comment}) for c in table.columns]
    )


def _nullable(of: T.DataType) -> T.DataType:
    return T.ArrayType(of.elementType) if isinstance(of, T.ArrayType) else of

"""Which unit each event and each open row belongs to.

Reads   the day's events and the rows that were open when it began
Gives   the edges between broker names, addresses and channels; events and rows with their unit
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs import units
from jobs.frames import Frames, codec_ready
from jobs.replay_unit import CARRIED_RANK
from jobs.tables import union_all

PUT_KV, DELETE_KV, DELETE_TOPIC = 100, 102, 216
WRITE_PERMISSIONS = (205, 327)  # wiped and added
KV_UNIT = "kv"
WHOLE_UNIT = "whole"
"""Unit of everything of a name server of whose past something is unknown."""


def edges_of(events: DataFrame, open_rows: Frames) -> DataFrame:
    """Return what ties broker names, addresses and channels together, in the day's events and in the starting state."""
    name, channel = units.node("n", "broker_name"), units.node("c", "channel_id")
    addr, name_key = units.key_node("a", "broker_addr"), units.key_node("n", "broker_name")
    edges = units.edges_of(events.where("kind = 'heartbeats'"), (addr, name))
    edges = edges.unionAll(units.edges_of(events.where("kind = 'unregistrations'"), (addr, name_key)))
    edges = edges.unionAll(units.edges_of(events.where("kind = 'registrations'"), (addr, name_key), (addr, channel)))
    edges = edges.unionAll(
        units.edges_of(events.where("broker_name IS NOT NULL AND kind = 'admin_events'"), (name, name))
    )
    topics = events.where("size(queue_datas) > 0").select(
        "namesrv_id",
        F.col("queue_datas")[0]["broker_name"].alias("broker_name"),
        F.explode("queue_datas.broker_name").alias("other_name"),
    )
    edges = edges.unionAll(units.edges_of(topics, (name, units.node("n", "other_name"))))
    pairs = {
        "broker_addr_history": (addr, name_key),
        "broker_live_history": (addr, channel),
        "data_version_history": (addr, name),
        "cluster_addr_history": (name_key, name_key),
        "topic_queue_history": (name_key, name_key),
        "filter_server_history": (addr, addr),
        "topic_queue_mapping_history": (units.key_node("n", "bname"),) * 2,
    }
    for table, pair in pairs.items():
        if table in open_rows:
            edges = edges.unionAll(units.edges_of(open_rows[table], pair))
    # A 4.x server takes a lost channel's remote address for a broker address.
    known = edges.select("namesrv_id", F.explode(F.array("one", "other")).alias("one")).distinct()
    remote = events.where("kind = 'channel_events'").select(
        "namesrv_id", units.node("a", "remote_addr").alias("one"), channel.alias("other")
    )
    return edges.unionAll(remote.join(known, on=["namesrv_id", "one"], how="left_semi")).distinct()


def crossings_of(events: DataFrame, open_rows: Frames) -> DataFrame:
    """Return (namesrv_id, what) of that which acts beyond its unit, in the day's events and in the starting state."""
    # Of which kind an event is, is known of each table before it is read: heartbeats are not read for this.
    registered, asked = F.col("kind") == "registrations", F.col("kind") == "admin_events"
    no_name, no_addr = F.col("broker_name").isNull(), F.col("broker_addr").isNull()
    of_events = {
        units.NO_CHANNEL: registered & F.col("channel_id").isNull(),
        units.NO_ADDR: registered & no_addr,
        units.NO_KEY: ((F.col("kind") == "unregistrations") & (no_name | no_addr))
        | (asked & F.col("code").isin(*WRITE_PERMISSIONS) & no_name)
        | (asked & F.col("code").eqNullSafe(DELETE_TOPIC) & F.col("topic").isNull()),
        units.SEVERAL_BROKERS: F.size("queue_datas") > 1,
    }
    found = [_crossing(events.where(condition), what) for what, condition in of_events.items()]
    for table, what, column in (
        ("broker_live_history", units.NO_CHANNEL, "channel_id"),
        ("broker_addr_history", units.NO_ADDR, "broker_addr"),
    ):
        if table in open_rows:
            found.append(_crossing(open_rows[table].where(F.col(column).isNull()), what))
    members = events.where(registered).select("namesrv_id", "broker_name", "cluster_name")
    if "cluster_addr_history" in open_rows:
        members = members.unionAll(open_rows["cluster_addr_history"].select(*members.columns))
    clusters = members.groupBy("namesrv_id", "broker_name").agg(
        F.min("cluster_name").alias("first"), F.max("cluster_name").alias("last")
    )
    found.append(_crossing(clusters.where("first <> last"), units.SEVERAL_CLUSTERS))
    return union_all(found).distinct()


def _crossing(rows: DataFrame, what: str) -> DataFrame:
    return rows.select("namesrv_id", F.lit(what).alias("what"))


def placed(events: DataFrame, unit_of: DataFrame) -> DataFrame:
    """Return events with their unit; one that concerns all units comes once for each."""
    # The start and stop of the server, and a topic's deletion, concern whoever is registered.
    for_all = (F.col("kind") == "namesrv_events") | F.col("code").eqNullSafe(DELETE_TOPIC)
    first_queue = F.when(F.size("queue_datas") > 0, F.col("queue_datas")[0]["broker_name"])
    of_broker = F.col("kind").isin("heartbeats", "registrations", "unregistrations")
    own = events.where(~for_all).withColumn(
        "node",
        F.coalesce(
            F.when(of_broker, units.key_node("a", "broker_addr")),
            F.when(F.col("code").isin(*WRITE_PERMISSIONS), units.key_node("n", "broker_name")),
            units.node("a", "broker_addr"),
            units.node("n", "broker_name"),
            F.concat(F.lit("n:"), first_queue),
            F.when(F.col("kind") == "channel_events", units.node("c", "channel_id")),
            units.node("a", "remote_addr"),
        ),
    )
    kv = F.col("code").eqNullSafe(PUT_KV) | F.col("code").eqNullSafe(DELETE_KV)
    own = _with_unit(own, unit_of, F.when(kv, F.lit(KV_UNIT)).otherwise(F.lit(units.ELSEWHERE)))
    everywhere = unit_of.select("namesrv_id", "unit").unionAll(
        events.select("namesrv_id", F.explode(F.array(F.lit(KV_UNIT), F.lit(units.ELSEWHERE))).alias("unit"))
    )
    spread = events.where(for_all).join(F.broadcast(everywhere.distinct()), on="namesrv_id", how="inner")
    return own.unionByName(spread)


def _with_unit(rows: DataFrame, unit_of: DataFrame, otherwise: Column) -> DataFrame:
    found = F.broadcast(unit_of)
    joined = rows.join(found, on=["namesrv_id", "node"], how="left")
    return joined.withColumn("unit", F.coalesce("unit", otherwise)).drop("node")


def row_node(frame: DataFrame) -> Column:
    """Return the node of a row of a history table; NULL where it belongs to no broker."""
    keys = [("a", "broker_addr"), ("n", "broker_name"), ("n", "bname")]
    found = [units.key_node(kind, column) for kind, column in keys if column in frame.columns]
    return found[0] if found else F.lit(None).cast("string")


def carried_rows(frame: DataFrame, table: str, unit_of: DataFrame) -> DataFrame:
    """Return open rows of a history table as the replay takes them, with their unit."""
    rows = frame.withColumn("node", row_node(frame))
    rows = _with_unit(codec_ready(rows), unit_of, F.lit(KV_UNIT if table == "kv_config_history" else units.ELSEWHERE))
    return rows.withColumn("kind", F.lit(table)).withColumn("rank", F.lit(CARRIED_RANK))

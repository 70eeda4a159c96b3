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

PUT_KV, DELETE_KV, DELETE_TOPIC = 100, 102, 216
KV_UNIT = "kv"
WHOLE_UNIT = "whole"
"""Unit of everything of a name server of whose past something is unknown."""


def edges_of(events: DataFrame, open_rows: Frames) -> DataFrame:
    """Return what ties broker names, addresses and channels together, in the day's events and in the starting state."""
    name, addr, channel = (
        units.node(k, c) for k, c in (("n", "broker_name"), ("a", "broker_addr"), ("c", "channel_id"))
    )
    brokers = events.where("kind IN ('heartbeats', 'registrations', 'unregistrations')")
    edges = units.edges_of(brokers, (addr, name))
    edges = edges.unionAll(units.edges_of(events.where("kind = 'registrations'"), (addr, channel)))
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
        "broker_addr_history": (addr, name),
        "broker_live_history": (addr, channel),
        "data_version_history": (addr, name),
        "cluster_addr_history": (name, name),
        "topic_queue_history": (name, name),
        "filter_server_history": (addr, addr),
        "topic_queue_mapping_history": (units.node("n", "bname"),) * 2,
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


def placed(events: DataFrame, unit_of: DataFrame) -> DataFrame:
    """Return events with their unit; one that concerns all units comes once for each."""
    # The start and stop of the server, and a topic's deletion, concern whoever is registered.
    for_all = (F.col("kind") == "namesrv_events") | F.col("code").eqNullSafe(DELETE_TOPIC)
    first_queue = F.when(F.size("queue_datas") > 0, F.col("queue_datas")[0]["broker_name"])
    own = events.where(~for_all).withColumn(
        "node",
        F.coalesce(
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
    found = [units.node(kind, column) for kind, column in keys if column in frame.columns]
    return F.coalesce(*found) if found else F.lit(None).cast("string")


def carried_rows(frame: DataFrame, table: str, unit_of: DataFrame) -> DataFrame:
    """Return open rows of a history table as the replay takes them, with their unit."""
    rows = frame.withColumn("node", row_node(frame))
    rows = _with_unit(codec_ready(rows), unit_of, F.lit(KV_UNIT if table == "kv_config_history" else units.ELSEWHERE))
    return rows.withColumn("kind", F.lit(table)).withColumn("rank", F.lit(CARRIED_RANK))

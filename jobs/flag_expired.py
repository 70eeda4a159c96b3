"""Which brokers fell silent and were removed: when, by what, and what went with them.

Reads   the slices of the days and `event_outcomes`
Gives   the rows of expired_brokers
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def expired_brokers_from(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of `expired_brokers`: live entries removed by a scan or an idle close."""
    return (
        _removals_from(slices)
        .alias("l")
        .join(
            _topics_lost_from(slices).alias("t"),
            F.expr(
                "t.namesrv_id = l.namesrv_id AND t.day = l.day "
                "AND t.closed_by = l.closed_by AND t.broker_addr <=> l.broker_addr"
            ),
            "left",
        )
        .join(
            _clusters_from(slices).alias("c"),
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


def _removals_from(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return live entries that a scan or an idle close ended, one row each, with the next one under their key in `back`."""
    removals = slices["event_outcomes"].where("operation IN ('scan', 'channel_idle')")
    entries = slices["broker_live_history"]
    back = F.expr(
        "min(IF(r.opened_at.seq > l.closed_at.seq, struct(r.opened_at.seq, r.valid_from, r.opened_by), NULL))"
    )
    return (
        entries.where("closed_by IS NOT NULL")
        .alias("l")
        .join(
            removals.alias("o"),
            F.expr("o.namesrv_id = l.namesrv_id AND o.day = l.day AND o.event_id = l.closed_by"),
        )
        .join(
            entries.alias("r"),
            F.expr(
                "r.namesrv_id = l.namesrv_id AND r.day = l.day "
                "AND r.cluster_name <=> l.cluster_name AND r.broker_addr <=> l.broker_addr"
            ),
        )
        .groupBy(
            "l.namesrv_id",
            "l.day",
            "l.cluster_name",
            "l.broker_name",
            "l.broker_addr",
            "l.closed_by",
            "l.valid_to",
            "l.last_update_time",
            "l.heartbeat_timeout_ms",
            "o.operation",
        )
        .agg(back.alias("back"))
    )


def _topics_lost_from(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the topics whose queue data an event removed together with a group's address, one row for event and address.

    Queue data that the event wrote anew, as where 5.x takes the write permission of a group without master, are not lost.
    """
    queues = slices["topic_queue_history"]
    removed = (
        queues.where("closed_by IS NOT NULL")
        .alias("q")
        .join(
            queues.alias("w"),
            F.expr(
                "w.namesrv_id = q.namesrv_id AND w.day = q.day AND w.opened_by = q.closed_by "
                "AND w.topic <=> q.topic AND w.broker_name <=> q.broker_name"
            ),
            "left_anti",
        )
    )
    return (
        removed.join(
            slices["broker_addr_history"].alias("g"),
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
    )


def _clusters_from(slices: Mapping[str, DataFrame]) -> DataFrame:
    """Return the cluster of each member of a group on each day: the key of a 4.x live entry does not say it."""
    return (
        slices["broker_addr_history"]
        .groupBy("namesrv_id", "day", "broker_name", "broker_addr")
        .agg(F.min("cluster_name").alias("cluster_name"))
    )

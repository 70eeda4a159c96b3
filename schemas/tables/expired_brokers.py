"""The table expired_brokers: one removal of a broker that had fallen silent."""

from __future__ import annotations

from schemas.gold_histories import BROKER_ADDR, BROKER_NAME, CLUSTER_NAME, DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import is_day_of, known_event, warn
from schemas.table import LONG, STRING, STRINGS, TIMESTAMP, Column, Rule, Table, required

EXPIRED_BROKERS = Table(
    "expired_brokers",
    "gold",
    "one removal of a broker that had fallen silent",
    (
        NAMESRV_ID,
        CLUSTER_NAME,
        BROKER_NAME,
        BROKER_ADDR,
        required("cause", STRING, "scan (lease ended) or idle_channel (server closed the silent connection)"),
        Column("last_beat_time", TIMESTAMP, "Last refresh; NULL: only a log tells of the removal"),
        Column("heartbeat_timeout_ms", LONG, "Lease in milliseconds; NULL likewise"),
        required("removed_time", TIMESTAMP, "When it was removed"),
        required("removed_by", STRING, "event_id of the scan or of the channel event"),
        Column("detection_lag_ms", LONG, "Milliseconds from the last refresh to the removal; NULL likewise"),
        Column("returned_time", TIMESTAMP, "Next registration under the same live key that day; NULL if none"),
        Column("returned_by", STRING, "event_id of that registration"),
        required("topics_lost", STRINGS, "Topics that lost queue data with it"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "removed_by"),
    made_by="flags",
    shows_changes=True,
    rules=(
        Rule("cause_is_known", "cause IN ('scan', 'idle_channel')", "The cause is scan or idle_channel."),
        Rule("removed_that_day", is_day_of("removed_time"), "day is the UTC date of removed_time."),
        Rule(
            "removed_after_last_beat",
            "coalesce(last_beat_time <= removed_time, TRUE)",
            "A broker is removed after its last refresh.",
        ),
        Rule(
            "lag_is_the_difference",
            "detection_lag_ms IS NULL OR "
            "abs(detection_lag_ms - (epoch_us(removed_time) - epoch_us(last_beat_time)) / 1000) <= 1",
            "detection_lag_ms runs from the last refresh to the removal.",
        ),
        warn(
            "scan_removes_after_the_lease",
            "cause <> 'scan' OR coalesce(detection_lag_ms > heartbeat_timeout_ms, TRUE)",
            "A scan removes brokers whose lease has ended; in 4.x also one that shares their connection.",
        ),
        Rule(
            "returns_whole",
            "(returned_time IS NULL) = (returned_by IS NULL) AND NOT coalesce(returned_time < removed_time, FALSE)",
            "A return has time and event, and follows the removal.",
        ),
        known_event("expired_brokers", "removed_by"),
        known_event("expired_brokers", "returned_by"),
    ),
)

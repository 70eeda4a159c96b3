"""The table expired_brokers: one removal of a broker that had fallen silent."""

from __future__ import annotations

from schemas.table import Table, columns, is_day_of, known_event, rules

EXPIRED_BROKERS = Table(
    "expired_brokers",
    "gold",
    "one removal of a broker that had fallen silent",
    columns("""
        namesrv_id
        cluster_name
        broker_name
        broker_addr
        cause* STRING: scan (lease ended) or idle_channel (server closed the silent connection)
        last_beat_time TIMESTAMP: Last heartbeat or registration that renewed the lease; NULL: the removal is known only from a log
        heartbeat_timeout_ms BIGINT: Lease in milliseconds; NULL likewise
        removed_time* TIMESTAMP: When it was removed
        removed_by* STRING: event_id of the scan or of the channel event
        detection_lag_ms BIGINT: Milliseconds from the last refresh to the removal; NULL likewise
        returned_time TIMESTAMP: Next registration that day under the same live key, or back in its group; NULL if none
        returned_by STRING: event_id of that registration
        topics_lost* ARRAY<STRING>: Topics that lost queue data with it
        day
    """),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "removed_by"),
    made_by="flags",
    rules=(
        *rules(f"""
            cause_is_known: The cause is scan or idle_channel.
                cause IN ('scan', 'idle_channel')
            removed_that_day: day is the UTC date of removed_time.
                {is_day_of("removed_time")}
            removed_after_last_beat: A broker is removed after its last refresh.
                coalesce(last_beat_time <= removed_time, TRUE)
            lag_is_the_difference: detection_lag_ms runs from the last refresh to the removal.
                detection_lag_ms IS NULL OR
                abs(detection_lag_ms - (epoch_us(removed_time) - epoch_us(last_beat_time)) / 1000) <= 1
            scan_removes_after_the_lease?: A scan removes brokers whose lease has ended; in 4.x also one on their connection.
                cause <> 'scan' OR coalesce(detection_lag_ms > heartbeat_timeout_ms, TRUE)
            returns_whole: A return has time and event, and follows the removal.
                (returned_time IS NULL) = (returned_by IS NULL) AND NOT coalesce(returned_time < removed_time, FALSE)
        """),
        known_event("expired_brokers", "removed_by"),
        known_event("expired_brokers", "returned_by"),
    ),
)

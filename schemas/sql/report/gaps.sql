-- Gaps between heartbeats above a share of the lease, the longest first, and removals of silent brokers.
SELECT * FROM (
    SELECT
        namesrv_id, broker_name, broker_addr, after_time, after_time + to_milliseconds(gap_ms) AS until_time, gap_ms, lease_ms,
        'beat' AS ended_by
    FROM heartbeat_gaps
    UNION ALL
    SELECT namesrv_id, broker_name, broker_addr, last_beat_time, removed_time, detection_lag_ms, heartbeat_timeout_ms, cause
    FROM expired_brokers
)
WHERE gap_ms >= {near} * lease_ms AND until_time >= $a AND until_time < $b AND {of_namesrv} AND {of_brokers}
ORDER BY gap_ms * 1.0 / lease_ms DESC LIMIT {most}

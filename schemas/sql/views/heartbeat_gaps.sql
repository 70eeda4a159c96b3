-- One gap between two consecutive heartbeats of a live broker that renewed its lease, with that lease
-- columns: namesrv_id, broker_name, broker_addr
-- column after_time: Time of the heartbeat before the gap
-- column gap_ms: Milliseconds until the next heartbeat
-- column lease_ms: Lease in milliseconds
-- column event_id: Heartbeat that ended the gap
-- column day: UTC date of that heartbeat
SELECT
    l.namesrv_id, coalesce(b.broker_name, l.broker_name), b.broker_addr, b.after_time,
    timestampdiff(MILLISECOND, b.after_time, b.effect_time), l.heartbeat_timeout_ms, b.event_id, b.day
FROM (
    SELECT
        r.*, lag(r.effect_time) OVER (
            PARTITION BY r.namesrv_id, coalesce(r.cluster_name, ''), r.broker_name, r.broker_addr ORDER BY r.seq
        ) AS after_time
    FROM live_refreshes AS r
) AS b
-- both heartbeats lie in one stay; between two stays the broker was absent, which is not a gap
JOIN broker_lives AS l
    ON l.namesrv_id = b.namesrv_id AND l.broker_addr = b.broker_addr
    AND (l.cluster_name IS NULL OR l.cluster_name <=> b.cluster_name)
    AND b.after_time >= l.from_time AND (l.to_time IS NULL OR b.effect_time <= l.to_time)

-- One gap between two beats of one broker at a live address that renewed its lease, and the lease that it had
-- columns: namesrv_id, broker_name, broker_addr
-- column after_time: Beat before the gap
-- column gap_ms: Milliseconds until the next
-- column lease_ms: Lease in milliseconds
-- column event_id: Beat that ended the gap
-- column day: UTC date of that beat
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
-- both beats lie in one stay: what is between two stays is an absence, no gap
JOIN broker_lives AS l
    ON l.namesrv_id = b.namesrv_id AND l.broker_addr = b.broker_addr
    AND (l.cluster_name IS NULL OR l.cluster_name <=> b.cluster_name)
    AND b.after_time >= l.from_time AND (l.to_time IS NULL OR b.effect_time <= l.to_time)

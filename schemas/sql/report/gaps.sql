-- Silences of more than a share of the lease, the longest first, and removals of silent brokers.
WITH renewing AS (
    SELECT namesrv_id, coalesce(cluster_name, '') AS cluster, broker_addr, seq, effect_time FROM registrations
    WHERE day IN ({days}) AND refusal IS NULL AND {of_namesrv}
    UNION ALL
    SELECT namesrv_id, coalesce(cluster_name, ''), broker_addr, seq, effect_time FROM heartbeats
    WHERE day IN ({days}) AND {of_namesrv}
), refused AS (
    SELECT namesrv_id, seq FROM event_outcomes WHERE day IN ({days}) AND outcome NOT IN ('applied', 'refreshed')
), beats AS (
    SELECT namesrv_id, broker_addr, seq, effect_time, lag(effect_time) OVER (
        PARTITION BY namesrv_id, cluster, broker_addr ORDER BY seq
    ) AS after_time
    FROM renewing ANTI JOIN refused USING (namesrv_id, seq)
), leases AS (
    SELECT DISTINCT namesrv_id, broker_addr, broker_name, heartbeat_timeout_ms AS lease_ms, valid_from
    FROM broker_live_history_slices WHERE day IN ({days}) AND {of_brokers}
), arrivals AS (
    SELECT namesrv_id, opened_at.seq AS seq FROM broker_live_history_slices WHERE day IN ({days})
    EXCEPT SELECT namesrv_id, closed_at.seq FROM broker_live_history_slices WHERE day IN ({days})
), gaps AS (
    SELECT b.namesrv_id, l.broker_name, b.broker_addr, b.after_time, b.effect_time AS until_time,
        epoch_ms(b.effect_time) - epoch_ms(b.after_time) AS gap_ms, l.lease_ms, 'beat' AS ended_by
    FROM (SELECT * FROM beats WHERE effect_time - after_time > INTERVAL 1 SECOND) AS b
    ASOF JOIN leases AS l ON l.namesrv_id = b.namesrv_id AND l.broker_addr = b.broker_addr AND b.after_time >= l.valid_from
    -- what is between two stays is an absence, no silence
    ANTI JOIN arrivals AS came ON came.namesrv_id = b.namesrv_id AND came.seq = b.seq
    UNION ALL
    SELECT namesrv_id, broker_name, broker_addr, last_beat_time, removed_time, detection_lag_ms, heartbeat_timeout_ms, cause
    FROM expired_brokers WHERE day IN ({days}) AND {of_namesrv} AND {of_brokers}
)
SELECT * FROM gaps WHERE gap_ms >= {near} * lease_ms AND until_time >= $a AND until_time < $b
ORDER BY gap_ms * 1.0 / lease_ms DESC LIMIT {most}

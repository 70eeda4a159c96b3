-- Silences of more than a share of the lease, the longest first, and removals of silent brokers.
WITH renewed AS NOT MATERIALIZED (
    SELECT namesrv_id, coalesce(cluster_name, '') AS cluster, broker_name, broker_addr, seq, effect_time FROM live_refreshes
    WHERE {of_namesrv}
), leases AS (
    SELECT DISTINCT namesrv_id, broker_addr, broker_name, heartbeat_timeout_ms AS lease_ms, valid_from
    FROM broker_live_history WHERE {of_brokers}
), slots AS (
    -- Beats so far apart leave a slot of half that width empty: all others need not be put in order.
    SELECT namesrv_id, broker_addr, greatest(1, CAST(floor({near} * min(lease_ms) / 2) AS BIGINT)) AS slot_ms
    FROM leases GROUP BY namesrv_id, broker_addr
), buckets AS (
    SELECT namesrv_id, cluster, broker_name, broker_addr, slot // 60 AS bucket, bit_or(1::BIGINT << (slot % 60)) AS filled,
        min(slot) AS first, max(slot) AS last
    FROM (
        SELECT namesrv_id, cluster, broker_name, broker_addr, epoch_ms(effect_time) // slot_ms AS slot
        FROM renewed JOIN slots USING (namesrv_id, broker_addr)
    ) GROUP BY ALL
), silent AS (
    SELECT DISTINCT namesrv_id, cluster, broker_name, broker_addr FROM (
        SELECT *, first - lag(last) OVER (PARTITION BY namesrv_id, cluster, broker_name, broker_addr ORDER BY bucket) AS step FROM buckets
    ) WHERE step > 1 OR bit_count(filled) <= last - first
), beats AS (
    SELECT namesrv_id, broker_name, broker_addr, seq, effect_time, lag(effect_time) OVER (
        PARTITION BY namesrv_id, cluster, broker_name, broker_addr ORDER BY seq
    ) AS after_time
    FROM renewed SEMI JOIN silent USING (namesrv_id, cluster, broker_name, broker_addr)
), arrivals AS (
    SELECT namesrv_id, opened_at.seq AS seq FROM broker_live_history
    EXCEPT SELECT namesrv_id, closed_at.seq FROM broker_live_history
), gaps AS (
    SELECT b.namesrv_id, l.broker_name, b.broker_addr, b.after_time, b.effect_time AS until_time,
        epoch_ms(b.effect_time) - epoch_ms(b.after_time) AS gap_ms, l.lease_ms, 'beat' AS ended_by
    FROM (SELECT * FROM beats WHERE effect_time - after_time > INTERVAL 1 SECOND) AS b
    ASOF JOIN leases AS l
        ON l.namesrv_id = b.namesrv_id AND l.broker_addr = b.broker_addr AND l.broker_name = b.broker_name
        AND b.after_time >= l.valid_from
    -- what is between two stays is an absence, no silence
    ANTI JOIN arrivals AS came ON came.namesrv_id = b.namesrv_id AND came.seq = b.seq
    UNION ALL
    SELECT namesrv_id, broker_name, broker_addr, last_beat_time, removed_time, detection_lag_ms, heartbeat_timeout_ms, cause
    FROM expired_brokers WHERE {of_namesrv} AND {of_brokers}
)
SELECT * FROM gaps WHERE gap_ms >= {near} * lease_ms AND until_time >= $a AND until_time < $b
ORDER BY gap_ms * 1.0 / lease_ms DESC LIMIT {most}

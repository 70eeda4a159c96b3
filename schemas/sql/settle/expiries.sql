-- Closes of connections that held a lease which had already ended, and how long before.
WITH renewals AS (
    SELECT 0 AS seq, epoch_us(last_update_time) AS at_us, cluster_name, broker_addr, TRUE AS registers, channel_id,
        heartbeat_timeout_ms
    FROM live
    UNION ALL
    SELECT last_seq, last_us, cluster_name, broker_addr, kind = 'registrations', channel_id, heartbeat_timeout_ms
    FROM hours WHERE refusal IS NULL
    UNION ALL
    SELECT seq, epoch_us(effect_time), cluster_name, broker_addr, TRUE, channel_id, heartbeat_timeout_ms
    FROM registrations WHERE refusal IS NULL
    UNION ALL
    SELECT seq, epoch_us(effect_time), cluster_name, broker_addr, FALSE, NULL, NULL
    FROM heartbeats WHERE coalesce(response_code, 0) = 0
), beats AS (
    SELECT *, if($with_cluster, cluster_name, NULL) AS cluster,
        -- A broker may state any long, so leases are capped at 31 years. least and greatest ignore a NULL.
        if(
            ($own_lease OR seq = 0) AND heartbeat_timeout_ms IS NOT NULL,
            greatest(least(heartbeat_timeout_ms, 1000000000000), -1000000000000), $default_ms
        ) AS lease_ms
    FROM renewals
), states AS (
    -- A live entry after each heartbeat: the connection that held it, and its last renewal.
    SELECT cluster, broker_addr, seq, max(at_us) OVER so_far AS beat_us,
        last_value(if(registers, {'channel_id': channel_id, 'lease_ms': lease_ms}, NULL) IGNORE NULLS) OVER so_far AS entry
    FROM beats WINDOW so_far AS (PARTITION BY cluster, broker_addr ORDER BY seq ROWS UNBOUNDED PRECEDING)
), held AS (
    SELECT o.seq, event_id, close_us, channel_id, beat_us, entry
    FROM (
        SELECT owned.*, cluster
        FROM owned JOIN (SELECT DISTINCT cluster, broker_addr FROM beats) AS entries ON entries.broker_addr IS NOT DISTINCT FROM owned.broker_addr
    ) AS o
    ASOF JOIN states
        ON states.broker_addr IS NOT DISTINCT FROM o.broker_addr AND states.cluster IS NOT DISTINCT FROM o.cluster AND states.seq < o.seq
)
SELECT seq, event_id, max(close_us // 1000 - beat_us // 1000 - entry.lease_ms) AS late_ms
FROM held WHERE entry.channel_id = channel_id AND close_us // 1000 - beat_us // 1000 > entry.lease_ms
GROUP BY seq, event_id ORDER BY seq

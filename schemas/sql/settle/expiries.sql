-- Closes of connections that held a lease which had already ended, and how long before.
WITH told AS (
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
    FROM told
), held AS (
    -- The state of a live entry at a close: the connection that held it, and its last renewal.
    SELECT owned.seq, event_id, close_us, owned.channel_id, max(at_us) AS beat_us,
        max_by({'channel_id': beats.channel_id, 'lease_ms': lease_ms}, beats.seq) FILTER (registers) AS entry
    FROM owned JOIN beats ON beats.broker_addr IS NOT DISTINCT FROM owned.broker_addr AND beats.seq < owned.seq
    GROUP BY owned.seq, event_id, close_us, owned.channel_id, cluster, owned.broker_addr
)
SELECT seq, event_id, max(close_us // 1000 - beat_us // 1000 - entry.lease_ms) AS late_ms
FROM held WHERE entry.channel_id = channel_id AND close_us // 1000 - beat_us // 1000 > entry.lease_ms
GROUP BY seq, event_id ORDER BY seq

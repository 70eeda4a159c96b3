-- The live entries at t, without rows for entries that may be missing
-- parameters: t
-- columns: namesrv_id
-- column cluster_name STRING: Cluster in the key (5.x); NULL in 4.x, whose key is the address
-- column broker_addr STRING: Broker address, ip:port
-- column broker_name STRING: Name in the registration that wrote the entry; not part of the name server's table
-- column last_update_timestamp TIMESTAMP: Latest registration or heartbeat at or before t that renewed the lease, in whole ms
-- column heartbeat_timeout_ms BIGINT: Lease in milliseconds
-- column data_version STRUCT<state_version: BIGINT, timestamp: BIGINT, counter: BIGINT>: Stored data version
-- column channel_id STRING: Connection of the registration
-- column ha_server_addr STRING: haServerAddr
-- column valid_from TIMESTAMP: Since when version, lease, connection and HA address are as shown
-- column opened_by STRING: event_id that set them
-- columns: known, coverage
SELECT
    r.namesrv_id, r.cluster_name, r.broker_addr, first(r.broker_name), max(renewed.beat_time),
    first(r.heartbeat_timeout_ms), first(r.data_version), first(r.channel_id), first(r.ha_server_addr),
    first(r.valid_from), first(r.opened_by),
    first(c.known OR (c.recorded AND coalesce(r.known_from >= c.known_since AND r.known_from <= r.t, FALSE))),
    first(c.coverage)
FROM (SELECT h.*, broker_live_rows_at.t AS t FROM broker_live_history AS h) AS r
JOIN coverage_at(broker_live_rows_at.t) AS c ON c.namesrv_id = r.namesrv_id AND c.is_covered
-- an inner join in which each entry has a row: Spark refuses outer joins with rows that depend on t
JOIN (
    SELECT namesrv_id, cluster_name, broker_addr, opened_at.seq AS seq, first_update_time AS beat_time FROM broker_live_history
    UNION ALL
    SELECT namesrv_id, cluster_name, broker_addr, CAST(NULL AS BIGINT), last_update_time FROM last_heartbeats
    WHERE day < to_date(broker_live_rows_at.t)
    UNION ALL
    SELECT namesrv_id, cluster_name, broker_addr, seq, date_trunc('MILLISECOND', effect_time) FROM live_refreshes
    WHERE day = to_date(broker_live_rows_at.t) AND effect_time <= broker_live_rows_at.t
) AS renewed
    ON renewed.namesrv_id = r.namesrv_id
    AND renewed.broker_addr <=> r.broker_addr
    AND (r.cluster_name IS NULL OR renewed.cluster_name <=> r.cluster_name)
    AND (renewed.seq >= r.opened_at.seq OR renewed.beat_time >= r.first_update_time AND renewed.seq IS NULL)
WHERE r.valid_from <= broker_live_rows_at.t AND (r.valid_to IS NULL OR r.valid_to > broker_live_rows_at.t)
    AND renewed.beat_time <= broker_live_rows_at.t
GROUP BY r.namesrv_id, r.cluster_name, r.broker_addr

-- One stay of a broker in brokerLiveTable, however often its version, lease or connection changed meanwhile
-- columns: namesrv_id
-- column cluster_name: Cluster of its last registration in the stay; NULL in 4.x
-- columns: broker_name, broker_addr
-- column from_time: When its live entry was added
-- column to_time: When its live entry was removed; NULL = still there
-- column opened_by: event_id that added the entry
-- column closed_by: event_id that removed the entry
-- column left_by: Operation of that event: scan, channel_close, unregister_broker ...
-- column heartbeat_timeout_ms: Lease in milliseconds at the end of the stay
SELECT
    s.namesrv_id, max_by(s.cluster_name, s.opened_at), max_by(s.broker_name, s.opened_at), s.broker_addr,
    min(s.valid_from), max_by(s.valid_to, s.opened_at), min_by(s.opened_by, s.opened_at), max_by(s.closed_by, s.opened_at),
    max_by(o.operation, s.opened_at), max_by(s.heartbeat_timeout_ms, s.opened_at)
FROM (
    SELECT
        n.*, sum(n.comes) OVER (PARTITION BY n.namesrv_id, n.live_key ORDER BY n.opened_at ROWS UNBOUNDED PRECEDING) AS stay
    FROM (
        SELECT
            h.*, concat(coalesce(h.cluster_name, ''), ' ', h.broker_addr) AS live_key,
            -- a row opened by the event that closed the row before it continues the same stay
            IF(lag(h.closed_by) OVER (
                PARTITION BY h.namesrv_id, coalesce(h.cluster_name, ''), h.broker_addr ORDER BY h.opened_at
            ) <=> h.opened_by, 0, 1) AS comes
        FROM broker_live_history AS h
    ) AS n
) AS s
LEFT JOIN event_outcomes AS o ON o.namesrv_id = s.namesrv_id AND o.event_id = s.closed_by
GROUP BY s.namesrv_id, s.live_key, s.broker_addr, s.stay

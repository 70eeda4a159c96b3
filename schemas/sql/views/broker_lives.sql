-- One stay of a broker in brokerLiveTable, however often its version, lease or connection changed meanwhile
-- columns: namesrv_id
-- column cluster_name: Cluster of its last registration in the stay; NULL in 4.x
-- columns: broker_name, broker_addr
-- column from_time: When it came
-- column to_time: When it went; NULL = still there
-- column opened_by: event_id with which it came
-- column closed_by: event_id with which it went
-- column left_by: What that event was: scan, channel_close, unregister_broker ...
-- column heartbeat_timeout_ms: Its lease at the end
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
            -- a row that goes on where another one ended is the same stay
            IF(lag(h.closed_by) OVER (
                PARTITION BY h.namesrv_id, coalesce(h.cluster_name, ''), h.broker_addr ORDER BY h.opened_at
            ) <=> h.opened_by, 0, 1) AS comes
        FROM broker_live_history AS h
    ) AS n
) AS s
LEFT JOIN event_outcomes AS o ON o.namesrv_id = s.namesrv_id AND o.event_id = s.closed_by
GROUP BY s.namesrv_id, s.live_key, s.broker_addr, s.stay

-- Brokers in the tables of a name server: rows that follow each other without a break are one stay.
WITH rows AS (
    SELECT namesrv_id, coalesce(cluster_name, '') AS cluster, broker_addr, opened_at, valid_from, valid_to, opened_by, closed_by,
        broker_name, heartbeat_timeout_ms AS lease_ms
    FROM {broker_live_history} WHERE {of_namesrv}
), numbered AS (
    SELECT *, sum(comes) OVER (PARTITION BY namesrv_id, cluster, broker_addr ORDER BY opened_at) AS stay FROM (
        SELECT *, if(lag(closed_by) OVER (
            PARTITION BY namesrv_id, cluster, broker_addr ORDER BY opened_at
        ) IS NOT DISTINCT FROM opened_by, 0, 1) AS comes FROM rows
    )
), stays AS (
    SELECT namesrv_id, max(broker_name) AS broker_name, broker_addr, min(valid_from) AS from_time,
        if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time, min_by(opened_by, opened_at) AS opened_by,
        arg_max_null(closed_by, opened_at) AS closed_by, max_by(lease_ms, opened_at) AS lease_ms
    FROM numbered GROUP BY namesrv_id, cluster, broker_addr, stay
)
SELECT s.*, o.operation AS left_by FROM stays AS s
LEFT JOIN event_outcomes AS o ON o.day IN ({days}) AND o.namesrv_id = s.namesrv_id AND o.event_id = s.closed_by
WHERE {alive} AND ($brokers IS NULL OR list_contains($brokers, s.broker_name))
ORDER BY s.namesrv_id, s.broker_name, s.broker_addr, s.from_time

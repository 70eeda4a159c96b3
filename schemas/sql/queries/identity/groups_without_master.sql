-- Which groups had no master, for how long, and could a slave act as master?
-- parameters: since, until
-- columns: namesrv_id, broker_name, from_time, to_time, lasted_ms
-- column members: ids and addresses of the remaining members
-- column may_act: TRUE = the smallest id may act as master (5.x)
-- columns: operation, event_id
-- column closed_by: event that brought a master back
WITH gone AS (
    SELECT
        m.namesrv_id, m.broker_name, m.valid_to AS from_time, m.closed_by,
        lead(m.valid_from) OVER place AS to_time, lead(m.opened_by) OVER place AS ended_by
    FROM broker_addr_history AS m
    WHERE m.broker_id = 0
    WINDOW place AS (PARTITION BY m.namesrv_id, m.broker_name ORDER BY m.opened_at)
)
SELECT
    g.namesrv_id, g.broker_name, g.from_time, g.to_time, timestampdiff(MILLISECOND, g.from_time, g.to_time) AS lasted_ms,
    array_join(array_sort(collect_set(concat(s.broker_id, '=', s.broker_addr))), ', ') AS members,
    max(IF(s.enable_acting_master, 1, 0)) = 1 AS may_act, o.operation, g.closed_by AS event_id, g.ended_by AS closed_by
FROM gone AS g
JOIN broker_addr_history AS s
    ON s.namesrv_id = g.namesrv_id AND s.broker_name = g.broker_name AND s.broker_id <> 0
    AND s.valid_from <= g.from_time AND (s.valid_to IS NULL OR s.valid_to > g.from_time)
LEFT JOIN event_outcomes AS o ON o.namesrv_id = g.namesrv_id AND o.event_id = g.closed_by
WHERE g.from_time IS NOT NULL AND (g.to_time IS NULL OR g.to_time > g.from_time)
    AND {overlaps(g.from_time, g.to_time)}
GROUP BY g.namesrv_id, g.broker_name, g.from_time, g.to_time, o.operation, g.closed_by, g.ended_by
ORDER BY g.from_time, g.namesrv_id, g.broker_name

-- Which groups had no master, for how long, and could a slave act as master?
-- parameters: since, until
-- columns: namesrv_id, broker_name, from_time, to_time, lasted_ms
-- column members: ids and addresses of the members
-- column may_act: TRUE = the smallest id may act as master (5.x)
-- columns: operation, event_id
-- column closed_by: event that ended it: a master is back, or nobody is left
WITH moves AS (
    SELECT
        namesrv_id, broker_name, opened_at AS position, valid_from AS moved_time, opened_by AS event_id,
        IF(broker_id IS NULL, 0, 1) AS members, IF(broker_id = 0, 1, 0) AS masters
    FROM broker_addr_history
    UNION ALL
    SELECT
        namesrv_id, broker_name, closed_at, valid_to, closed_by, IF(broker_id IS NULL, 0, -1), IF(broker_id = 0, -1, 0)
    FROM broker_addr_history
    WHERE closed_by IS NOT NULL
), states AS (
    SELECT
        namesrv_id, broker_name, position, min(moved_time) AS moved_time, min(event_id) AS event_id,
        sum(sum(members)) OVER so_far > 0 AND sum(sum(masters)) OVER so_far = 0 AS is_without
    FROM moves
    GROUP BY namesrv_id, broker_name, position
    WINDOW so_far AS (PARTITION BY namesrv_id, broker_name ORDER BY position)
), flips AS (
    SELECT *, coalesce(lag(is_without) OVER (PARTITION BY namesrv_id, broker_name ORDER BY position), FALSE) AS was_without
    FROM states
), gone AS (
    SELECT
        namesrv_id, broker_name, is_without, moved_time AS from_time, event_id, lead(moved_time) OVER place AS to_time,
        lead(event_id) OVER place AS closed_by
    FROM flips
    WHERE is_without <> was_without
    WINDOW place AS (PARTITION BY namesrv_id, broker_name ORDER BY position)
)
SELECT
    g.namesrv_id, g.broker_name, g.from_time, g.to_time, timestampdiff(MILLISECOND, g.from_time, g.to_time) AS lasted_ms,
    array_join(array_sort(collect_set(concat(s.broker_id, '=', s.broker_addr))), ', ') AS members,
    max(IF(s.enable_acting_master, 1, 0)) = 1 AS may_act, o.operation, g.event_id, g.closed_by
FROM gone AS g
JOIN broker_addr_history AS s
    ON s.namesrv_id = g.namesrv_id AND s.broker_name = g.broker_name AND s.broker_id <> 0
    AND s.valid_from <= g.from_time AND (s.valid_to IS NULL OR s.valid_to > g.from_time)
LEFT JOIN event_outcomes AS o ON o.namesrv_id = g.namesrv_id AND o.event_id = g.event_id
WHERE g.is_without AND g.from_time IS NOT NULL AND {overlaps(g.from_time, g.to_time)}
GROUP BY g.namesrv_id, g.broker_name, g.from_time, g.to_time, o.operation, g.event_id, g.closed_by
ORDER BY g.from_time, g.namesrv_id, g.broker_name

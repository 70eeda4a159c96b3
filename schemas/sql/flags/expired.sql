-- Live entries that a scan or an idle close ended (`removals`: those events), the topics lost with them, and their return. An entry
-- returns under the same key, or in the group: in 5.x, a broker that changed its cluster had another entry all the time.
-- Queue data that the event only rewrote are not lost: 5.x takes the write permission of a group without master. The key of a 4.x
-- live entry has no cluster, so the group gives it.
WITH gone AS (
    SELECT DISTINCT
        l.namesrv_id, l.cluster_name, l.broker_name, l.broker_addr, l.closed_by, l.closed_at.seq AS closed_seq,
        l.valid_to, l.last_update_time, l.heartbeat_timeout_ms, o.operation
    FROM live AS l
    JOIN removals AS o ON o.event_id = l.closed_by
),

returns AS (
    SELECT
        r.cluster_name, r.broker_addr, r.closed_by, arg_min(r.valid_from, r.seq) AS valid_from, arg_min(r.opened_by, r.seq) AS opened_by
    FROM (
        SELECT g.cluster_name, g.broker_addr, g.closed_by, l.opened_at.seq AS seq, l.valid_from, l.opened_by
        FROM gone AS g
        ASOF JOIN live AS l
            ON l.broker_addr IS NOT DISTINCT FROM g.broker_addr AND l.cluster_name IS NOT DISTINCT FROM g.cluster_name
            AND l.opened_at.seq > g.closed_seq
        UNION ALL
        SELECT g.cluster_name, g.broker_addr, g.closed_by, m.opened_at.seq, m.valid_from, m.opened_by
        FROM gone AS g
        ASOF JOIN members AS m
            ON m.broker_addr IS NOT DISTINCT FROM g.broker_addr AND m.broker_name IS NOT DISTINCT FROM g.broker_name
            AND m.opened_at.seq > g.closed_seq
    ) AS r
    GROUP BY r.cluster_name, r.broker_addr, r.closed_by
),

lost AS (
    SELECT
        m.closed_by, m.broker_addr, min(m.cluster_name) AS cluster_name,
        list_sort(list(DISTINCT q.topic) FILTER (q.topic IS NOT NULL)) AS topics_lost
    FROM queues AS q
    JOIN members AS m ON m.closed_by = q.closed_by AND m.broker_name IS NOT DISTINCT FROM q.broker_name
    WHERE NOT EXISTS (
        FROM queues AS w
        WHERE w.opened_by = q.closed_by AND w.topic IS NOT DISTINCT FROM q.topic
            AND w.broker_name IS NOT DISTINCT FROM q.broker_name
    )
    GROUP BY m.closed_by, m.broker_addr
),

clusters AS (
    SELECT broker_name, broker_addr, min(cluster_name) AS cluster_name FROM members GROUP BY broker_name, broker_addr
)

SELECT
    g.namesrv_id,
    coalesce(g.cluster_name, t.cluster_name, c.cluster_name) AS cluster_name,
    g.broker_name,
    g.broker_addr,
    if(g.operation IN ('scan', 'lease_ended'), 'scan', 'idle_channel') AS cause,
    g.last_update_time AS last_beat_time,
    g.heartbeat_timeout_ms,
    g.valid_to AS removed_time,
    g.closed_by AS removed_by,
    (epoch_us(g.valid_to) - epoch_us(g.last_update_time)) // 1000 AS detection_lag_ms,
    r.valid_from AS returned_time,
    r.opened_by AS returned_by,
    coalesce(t.topics_lost, []) AS topics_lost,
    CAST(g.valid_to AS DATE) AS day
FROM gone AS g
LEFT JOIN returns AS r
    ON r.closed_by = g.closed_by AND r.cluster_name IS NOT DISTINCT FROM g.cluster_name
    AND r.broker_addr IS NOT DISTINCT FROM g.broker_addr
LEFT JOIN lost AS t ON t.closed_by = g.closed_by AND t.broker_addr IS NOT DISTINCT FROM g.broker_addr
LEFT JOIN clusters AS c
    ON c.broker_name IS NOT DISTINCT FROM g.broker_name AND c.broker_addr IS NOT DISTINCT FROM g.broker_addr

-- Addresses that stood in a group without a live entry for more than 120 s. What began before the day begins with it here.
WITH starts AS (
    SELECT namesrv_id, day, broker_name, broker_id, broker_addr, cluster_name, valid_from, valid_to, closed_by,
        greatest(valid_from, CAST(day AS TIMESTAMP)) AS at, opened_by AS event_id
    FROM {broker_addr_history}
    UNION
    SELECT g.namesrv_id, g.day, g.broker_name, g.broker_id, g.broker_addr, g.cluster_name, g.valid_from, g.valid_to,
        g.closed_by, l.valid_to, l.closed_by
    FROM {broker_addr_history} AS g
    JOIN {broker_live_history} AS l
        ON l.namesrv_id = g.namesrv_id AND l.day = g.day AND l.broker_addr = g.broker_addr
        AND (l.cluster_name IS NULL OR l.cluster_name <=> g.cluster_name)
        AND l.valid_to > g.valid_from AND (g.valid_to IS NULL OR l.valid_to < g.valid_to)
),
gaps AS (
    SELECT s.namesrv_id, s.day, s.broker_name, s.broker_id, s.broker_addr, s.at, s.event_id, s.valid_to, s.closed_by,
        min(IF(l.valid_from > s.at, struct(l.valid_from, l.opened_by), NULL)) AS next,
        coalesce(max(l.valid_from <= s.at AND (l.valid_to IS NULL OR l.valid_to > s.at)), false) AS is_live
    FROM starts AS s
    LEFT JOIN {broker_live_history} AS l
        ON l.namesrv_id = s.namesrv_id AND l.day = s.day AND l.broker_addr = s.broker_addr
        AND (l.cluster_name IS NULL OR l.cluster_name <=> s.cluster_name)
    WHERE s.broker_addr IS NOT NULL
    GROUP BY s.namesrv_id, s.day, s.broker_name, s.broker_id, s.broker_addr, s.at, s.event_id, s.valid_to, s.closed_by
),
horizons AS (
    SELECT namesrv_id, day, max(effect_time) AS last_time FROM {event_outcomes} GROUP BY namesrv_id, day
),
ghosts AS (
    SELECT g.*, least(g.next.valid_from, g.valid_to) AS to_time,
        IF(g.valid_to IS NULL OR g.next.valid_from <= g.valid_to, g.next.opened_by, g.closed_by) AS ended_by, h.last_time
    FROM gaps AS g
    LEFT JOIN horizons AS h ON h.namesrv_id = g.namesrv_id AND h.day = g.day
    WHERE NOT g.is_live
)
SELECT
    namesrv_id, 'GHOST_BROKER' AS code, 'critical' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    at AS from_time, to_time,
    concat('id ', broker_id, ' of ', broker_name, ' is routed, but there is no live entry of its address') AS detail,
    array_distinct(filter(array(event_id, ended_by), id -> id IS NOT NULL)) AS evidence, day
FROM ghosts
WHERE coalesce(to_time, last_time) > at + INTERVAL 120 SECONDS

-- Times in which a broker name was silent while another broker name had the same address. Both renew the live entry of the address,
-- so the entry does not show the silence; in 5.x, brokers of two clusters have one entry each. A silence lasts from one heartbeat to
-- the next, to the end of the live entry, or to the end of the group membership. It counts anew after a gap.
WITH shared AS (
    SELECT
        a.broker_name, a.broker_id, a.broker_addr, l.cluster_name, greatest(a.valid_from, $start) AS begun, a.opened_by, a.valid_to,
        a.closed_by
    FROM members AS a
    JOIN (SELECT DISTINCT broker_addr, cluster_name FROM live) AS l
        ON l.broker_addr = a.broker_addr AND coalesce(l.cluster_name = a.cluster_name, l.cluster_name IS NULL)
    SEMI JOIN members AS b
        ON b.broker_addr = a.broker_addr AND b.broker_name <> a.broker_name
        AND coalesce(a.valid_from < b.valid_to, TRUE) AND coalesce(b.valid_from < a.valid_to, TRUE)
        AND coalesce(l.cluster_name = b.cluster_name, l.cluster_name IS NULL)
),

gone AS (
    SELECT l.cluster_name, l.broker_addr, l.valid_to, l.closed_by
    FROM live AS l
    ANTI JOIN live AS next
        ON next.broker_addr = l.broker_addr AND next.cluster_name IS NOT DISTINCT FROM l.cluster_name
        AND next.opened_by = l.closed_by
    WHERE l.closed_by IS NOT NULL
),

gaps AS (
    SELECT effect_time AS since, make_timestamptz(detail::BIGINT * 1000) AS until, event_id
    FROM outcomes WHERE operation = 'recording_gap'
),

points AS (
    SELECT *, begun AS since, opened_by AS event_id, FALSE AS is_gap FROM shared
    UNION ALL
    SELECT s.*, unnest([g.since, g.until]), g.event_id, unnest([TRUE, FALSE])
    FROM shared AS s
    JOIN gaps AS g ON g.since > s.begun AND coalesce(g.until < s.valid_to, TRUE)
    UNION ALL
    SELECT s.*, b.effect_time, b.event_id, FALSE
    FROM shared AS s
    JOIN beats AS b
        ON b.broker_name = s.broker_name AND b.broker_addr = s.broker_addr AND b.effect_time > s.begun
        AND coalesce(b.effect_time < s.valid_to, TRUE)
),

silences AS (
    SELECT
        *, coalesce(lead(since) OVER in_time, valid_to) AS until, coalesce(lead(event_id) OVER in_time, closed_by) AS ended_by
    FROM points
    WINDOW in_time AS (PARTITION BY broker_name, broker_id, broker_addr, opened_by ORDER BY since, event_id)
),

cut AS (
    SELECT s.*, g.valid_to AS gone_time, g.closed_by AS gone_by
    FROM silences AS s
    ASOF LEFT JOIN gone AS g
        ON g.broker_addr = s.broker_addr AND g.cluster_name IS NOT DISTINCT FROM s.cluster_name AND g.valid_to > s.since
)

SELECT
    broker_name, broker_id, broker_addr, since, event_id, least(until, gone_time) AS until,
    if(gone_time < until OR until IS NULL, gone_by, ended_by) AS ended_by
FROM cut WHERE NOT is_gap

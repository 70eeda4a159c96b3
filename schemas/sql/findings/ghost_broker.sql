-- Addresses that were in a group for long without a live entry, or with one that only another broker name at the same address
-- renews (`silent`). What began before the previous day begins with this day here; the open finding has the event that began it.
-- meaning: an address is in a group without a live entry, or with one that only another broker renews
-- severity: critical
-- threshold: ghost_after_s
-- remedy: Restart the broker under that address, or unregister it: the name server does not remove it
WITH starts AS (
    SELECT
        broker_name, broker_id, broker_addr, cluster_name, valid_from, valid_to, closed_by,
        if(epoch_us(valid_from) > epoch_us($start) - $ghost_us, valid_from, $start) AS since, opened_by AS event_id
    FROM broker_addr_history
    UNION
    SELECT
        g.broker_name, g.broker_id, g.broker_addr, g.cluster_name, g.valid_from, g.valid_to, g.closed_by,
        l.valid_to, l.closed_by
    FROM broker_addr_history AS g
    JOIN broker_live_history AS l
        ON l.broker_addr = g.broker_addr AND (l.cluster_name IS NULL OR l.cluster_name = g.cluster_name)
        AND l.valid_to > g.valid_from AND (g.valid_to IS NULL OR l.valid_to < g.valid_to)
),

gaps AS (
    SELECT
        s.broker_name, s.broker_id, s.broker_addr, s.since, s.event_id, s.valid_to, s.closed_by,
        min(l.valid_from) FILTER (l.valid_from > s.since) AS next_time,
        arg_min(l.opened_by, (l.valid_from, l.opened_by)) FILTER (l.valid_from > s.since) AS next_by
    FROM starts AS s
    LEFT JOIN broker_live_history AS l
        ON l.broker_addr = s.broker_addr AND (l.cluster_name IS NULL OR l.cluster_name = s.cluster_name)
    WHERE s.broker_addr IS NOT NULL
    GROUP BY s.broker_name, s.broker_id, s.broker_addr, s.since, s.event_id, s.valid_to, s.closed_by
    HAVING NOT coalesce(bool_or(l.valid_from <= s.since AND (l.valid_to IS NULL OR l.valid_to > s.since)), FALSE)
    -- a state that had begun before the day is not reported again from the day's start
    QUALIFY s.since = min(s.since) OVER (PARTITION BY s.broker_name, s.broker_id, s.broker_addr, s.valid_to, next_time)
),

ghosts AS (
    SELECT
        *, concat_ws(' ', broker_name, broker_addr) AS subject, least(next_time, valid_to) AS to_time,
        if(valid_to IS NULL OR next_time <= valid_to, next_by, closed_by) AS ended_by,
        'is routed, but there is no live entry of its address' AS told
    FROM gaps
    UNION ALL BY NAME
    SELECT
        broker_name, broker_id, broker_addr, since, event_id, concat_ws(' ', broker_name, broker_addr) AS subject, until AS to_time,
        ended_by, 'is routed, but nothing comes of it: another broker renews the live entry of its address' AS told
    FROM silent
)

SELECT
    'critical' AS severity, subject, since AS from_time, to_time,
    'id ' || broker_id || ' of ' || broker_name || ' ' || told AS detail,
    [if(stands, NULL, event_id), ended_by] AS evidence, [broker_name] AS broker_names
FROM (SELECT *, since <= $start AND subject IN (SELECT subject FROM standing) AS stands FROM ghosts) AS ghosts, about
WHERE coalesce(to_time >= $start, TRUE) AND (epoch_us(coalesce(to_time, seen_until)) > epoch_us(since) + $ghost_us OR stands)

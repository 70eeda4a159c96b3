-- Addresses that were in a group for long without a live entry, or with one that only another broker name at the same address
-- renews (`silent`). What began before the previous day begins with this day here; the open finding has the event that began it.
-- meaning: an address is in a group without a live entry, or with one that only another broker renews
-- severity: critical
-- threshold: ghost_after_s
-- remedy: Restart the broker under that address, or unregister it: the name server does not remove it
WITH groups AS (
    SELECT
        broker_name, broker_id, broker_addr, cluster_name, valid_from, valid_to, opened_by, closed_by,
        if(epoch_us(valid_from) > epoch_us($start) - $ghost_us, valid_from, $start) AS begun
    FROM broker_addr_history
    WHERE broker_addr IS NOT NULL
        AND coalesce(epoch_us(valid_to) - epoch_us(valid_from) > $ghost_us OR valid_from <= $start AND valid_to >= $start, TRUE)
),

lives AS (
    SELECT p.broker_addr, p.cluster_name, l.valid_from, l.valid_to, l.opened_by, l.closed_by, l.opened_at
    FROM (SELECT DISTINCT broker_addr, cluster_name FROM groups) AS p
    LEFT JOIN broker_live_history AS l
        ON l.broker_addr = p.broker_addr AND (l.cluster_name IS NULL OR l.cluster_name = p.cluster_name)
),

absences AS (
    SELECT
        broker_addr, cluster_name, CAST(NULL AS TIMESTAMPTZ) AS since, CAST(NULL AS VARCHAR) AS event_id, min(valid_from) AS next_time,
        arg_min(opened_by, (valid_from, opened_by)) AS next_by
    FROM lives
    GROUP BY broker_addr, cluster_name
    UNION ALL
    SELECT broker_addr, cluster_name, valid_to, closed_by, lead(valid_from) OVER in_time AS next_time, lead(opened_by) OVER in_time
    FROM lives
    WINDOW in_time AS (PARTITION BY broker_addr, cluster_name ORDER BY valid_from, opened_at)
    QUALIFY closed_by IS NOT NULL AND coalesce(next_time > valid_to, TRUE)
),

-- an absence, like a time in a group, that is too short or over when the day begins makes no ghost
gaps AS (
    SELECT
        g.broker_name, g.broker_id, g.broker_addr, g.valid_to, g.closed_by, a.next_time, a.next_by,
        if(a.since > g.valid_from, a.since, g.begun) AS since, if(a.since > g.valid_from, a.event_id, g.opened_by) AS event_id
    FROM groups AS g
    JOIN (
        FROM absences
        WHERE coalesce(next_time >= $start AND (since <= $start OR epoch_us(next_time) - epoch_us(since) > $ghost_us), TRUE)
    ) AS a
        ON a.broker_addr = g.broker_addr AND a.cluster_name IS NOT DISTINCT FROM g.cluster_name
        AND coalesce(a.since < g.valid_to, TRUE) AND coalesce(a.next_time > if(a.since > g.valid_from, a.since, g.begun), TRUE)
),

ghosts AS (
    SELECT
        *, concat_ws(' ', broker_name, broker_addr) AS subject, least(next_time, valid_to) AS to_time,
        if(valid_to IS NULL OR next_time <= valid_to, next_by, closed_by) AS ended_by,
        'is routed, but there is no live entry of its address' AS reason
    FROM gaps
    UNION ALL BY NAME
    SELECT
        broker_name, broker_id, broker_addr, since, event_id, concat_ws(' ', broker_name, broker_addr) AS subject, until AS to_time,
        ended_by, 'is routed, but nothing comes of it: another broker renews the live entry of its address' AS reason
    FROM silent
)

SELECT
    'critical' AS severity, subject, since AS from_time, to_time,
    'id ' || broker_id || ' of ' || broker_name || ' ' || reason AS detail,
    [if(was_open, NULL, event_id), ended_by] AS evidence, [broker_name] AS broker_names
FROM (SELECT *, since <= $start AND subject IN (SELECT subject FROM open_findings) AS was_open FROM ghosts) AS ghosts, about
WHERE coalesce(to_time >= $start, TRUE) AND (epoch_us(coalesce(to_time, seen_until)) > epoch_us(since) + $ghost_us OR was_open)

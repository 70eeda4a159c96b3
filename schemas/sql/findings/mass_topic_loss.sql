-- Events with which five topics and more lost their route. What closes a channel or scans does not say whom it removes: the
-- live entries that it ended do.
WITH lost AS (
    SELECT
        caused_by, min(effect_time) AS effect_time, count(*) AS topics, list_sort(list(DISTINCT topic)) AS names
    FROM route_changes
    WHERE change = 'vanished'
    GROUP BY caused_by
    HAVING count(*) >= $mass
),

removed AS (
    SELECT closed_by, list_sort(list(DISTINCT concat_ws(' ', broker_name, broker_addr))) AS brokers
    FROM broker_live_history
    WHERE closed_by IN (SELECT caused_by FROM lost)
    GROUP BY closed_by
)

SELECT
    if(o.operation = 'namesrv_stopped', 'info', 'critical') AS severity,
    coalesce(
        nullif(concat_ws(' ', o.broker_name, o.broker_addr), ''),
        CASE
            WHEN o.operation = 'namesrv_stopped' THEN o.operation
            WHEN len(r.brokers) > 1 THEN r.brokers[1] || ' and ' || len(r.brokers) - 1 || ' more'
            ELSE r.brokers[1]
        END,
        o.operation,
        c.caused_by
    ) AS subject,
    c.effect_time AS from_time, c.effect_time AS to_time,
    c.topics || ' topics vanished by ' || coalesce(o.operation, 'an event') || ': ' || array_to_string(c.names[1:10], ', ')
        AS detail,
    [c.caused_by] AS evidence, c.topics
FROM lost AS c
LEFT JOIN event_outcomes AS o ON o.event_id = c.caused_by
LEFT JOIN removed AS r ON r.closed_by = c.caused_by

-- Events with which five topics and more lost their route.
SELECT
    c.namesrv_id, 'MASS_TOPIC_LOSS' AS code, IF(o.operation = 'namesrv_stopped', 'info', 'critical') AS severity,
    coalesce(nullif(concat_ws(' ', o.broker_name, o.broker_addr), ''), o.operation, c.caused_by) AS subject,
    c.effect_time AS from_time, c.effect_time AS to_time,
    concat(
        c.topics, ' topics vanished by ', coalesce(o.operation, 'an event'), ': ', array_join(slice(c.names, 1, 10), ', ')
    ) AS detail,
    array(c.caused_by) AS evidence, c.day
FROM (
    SELECT namesrv_id, day, caused_by, min(effect_time) AS effect_time, count(*) AS topics,
        sort_array(collect_set(topic)) AS names
    FROM {route_changes}
    WHERE change = 'vanished'
    GROUP BY namesrv_id, day, caused_by
    HAVING count(*) >= 5
) AS c
LEFT JOIN {event_outcomes} AS o
    ON o.namesrv_id = c.namesrv_id AND o.day = c.day AND o.event_id = c.caused_by

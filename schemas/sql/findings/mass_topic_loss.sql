-- Events by which five topics or more lost their route. `deleting`: the registrations among them. Only one setting lets a
-- registration remove the route of topics that it does not list.
-- meaning: many topics lost their route with one event
-- severity: critical; info if the name server stopped
-- threshold: many_topics
-- remedy: Find out who sent the event; if topics were deleted, restore them from the brokers' configuration; if deleteTopicWithBrokerRegistration did it, switch it off
WITH lost AS (
    SELECT
        caused_by, min(effect_time) AS effect_time, count(*) AS topics, list_sort(list(DISTINCT topic)) AS names
    FROM route_changes
    WHERE change = 'vanished'
    GROUP BY caused_by
    HAVING count(*) >= $mass
)

SELECT
    if(o.operation = 'namesrv_stopped', 'info', 'critical') AS severity,
    coalesce(
        nullif(concat_ws(' ', o.broker_name, o.broker_addr), '')
        || if(len(o.brokers_gone) > 1, ' and ' || len(o.brokers_gone) - 1 || ' more', ''),
        o.operation,
        c.caused_by
    ) AS subject,
    c.effect_time AS from_time, c.effect_time AS to_time,
    c.topics || ' topics vanished by ' || coalesce(o.operation, 'an event') || ': ' || array_to_string(c.names[1:10], ', ')
        || if(
            d.event_id IS NOT NULL AND EXISTS (
                FROM namesrv_settings AS s
                WHERE s.setting = 'delete_topic_with_broker_registration' AND s.value = 'true' AND s.from_seq <= o.seq
                    AND coalesce(c.effect_time < s.valid_to, TRUE)
            ),
            '; it lists ' || d.topic_count || if(d.topic_count = 1, ' topic', ' topics')
            || ', and deleteTopicWithBrokerRegistration = true deletes those of a broker that its registration does not list', ''
        ) AS detail,
    [c.caused_by] AS evidence, c.names AS topic_names,
    coalesce(list_transform(o.brokers_gone, lambda gone: gone.broker_name), [o.broker_name]) AS broker_names
FROM lost AS c
LEFT JOIN event_outcomes AS o ON o.event_id = c.caused_by
LEFT JOIN deleting AS d ON d.event_id = c.caused_by

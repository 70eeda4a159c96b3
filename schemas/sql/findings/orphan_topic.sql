-- meaning: a topic is routed to nobody
-- severity: critical
-- remedy: Bring the broker back, or delete the topic if it is gone for good
SELECT
    'critical' AS severity, t.topic AS subject, valid_from AS from_time, valid_to AS to_time,
    if(reason = 'no_live_broker', 'routed to addresses of which none is live', 'routed to broker names without any address')
        AS detail,
    [opened_by, closed_by] AS evidence, [t.topic] AS topic_names,
    -- the broker names of the event that began it
    coalesce(list_transform(o.brokers_gone, lambda gone: gone.broker_name), [o.broker_name]) AS broker_names
FROM orphaned_topics AS t
LEFT JOIN event_outcomes AS o ON o.event_id = t.opened_by
WHERE reason IN ('no_broker_address', 'no_live_broker')

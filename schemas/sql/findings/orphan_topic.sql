-- Topics that are routed to nobody.
SELECT
    'critical' AS severity, topic AS subject, valid_from AS from_time, valid_to AS to_time,
    if(reason = 'no_live_broker', 'routed to addresses of which none is live', 'routed to broker names without any address')
        AS detail,
    list_filter([opened_by, closed_by], lambda id: id IS NOT NULL) AS evidence
FROM orphaned_topics
WHERE reason IN ('no_broker_address', 'no_live_broker')

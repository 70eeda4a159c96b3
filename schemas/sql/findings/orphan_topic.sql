-- Topics that are routed to nobody.
SELECT
    namesrv_id, 'ORPHAN_TOPIC' AS code, 'critical' AS severity, topic AS subject,
    valid_from AS from_time, valid_to AS to_time, IF(reason = 'no_live_broker', 'routed to addresses of which none is live', 'routed to broker names without any address') AS detail,
    filter(array(opened_by, closed_by), id -> id IS NOT NULL) AS evidence, day
FROM {orphaned_topics}
WHERE reason IN ('no_broker_address', 'no_live_broker')

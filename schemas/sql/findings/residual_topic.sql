-- Topics that a broker no longer reports and the name server still routes to it.
SELECT
    namesrv_id, 'RESIDUAL_TOPIC' AS code, 'warning' AS severity, concat_ws('@', topic, broker_name) AS subject,
    valid_from AS from_time, valid_to AS to_time, concat('still routed to ', broker_name, ', which does not report it any more') AS detail,
    filter(array(opened_by, closed_by), id -> id IS NOT NULL) AS evidence, day
FROM {orphaned_topics}
WHERE reason = 'residual'

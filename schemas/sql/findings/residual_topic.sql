-- Topics that a broker no longer reports and the name server still routes to it.
SELECT
    'warning' AS severity, concat_ws('@', topic, broker_name) AS subject, valid_from AS from_time, valid_to AS to_time,
    'still routed to ' || broker_name || ', which does not report it any more' AS detail,
    list_filter([opened_by, closed_by], lambda id: id IS NOT NULL) AS evidence
FROM orphaned_topics
WHERE reason = 'residual'

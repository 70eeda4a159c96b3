-- meaning: a topic is still routed to a broker that no longer reports it
-- severity: warning
-- remedy: Delete the topic on the name servers, or restart them one by one
SELECT
    'warning' AS severity, concat_ws('@', topic, broker_name) AS subject, valid_from AS from_time, valid_to AS to_time,
    'still routed to ' || broker_name || ', which does not report it any more' AS detail,
    [opened_by, closed_by] AS evidence, [topic] AS topic_names, [broker_name] AS broker_names
FROM orphaned_topics
WHERE reason = 'residual'

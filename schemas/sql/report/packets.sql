-- Recorded events: requests with their content, ends of connections, facts about name servers.
SELECT t.*, c.topics[:12] AS topics
FROM (
    SELECT * FROM registrations
    UNION ALL BY NAME SELECT * FROM unregistrations
    UNION ALL BY NAME SELECT * FROM admin_events
    UNION ALL BY NAME SELECT * FROM channel_events
    UNION ALL BY NAME SELECT * FROM namesrv_events
) AS t
LEFT JOIN topic_configs AS c ON c.topic_config_digest = t.topic_config_digest
WHERE t.event_id IN (SELECT unnest($events))
ORDER BY t.seq

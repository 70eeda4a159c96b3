-- While when some name servers had a topic of a broker, and some had not.
WITH rows AS (
    SELECT namesrv_id, topic, broker_name, valid_from, valid_to, opened_by, closed_by
    FROM {topic_queue_history} WHERE ($topic IS NULL OR topic = $topic) AND {of_brokers}
), steps AS (
    SELECT topic, broker_name, since, min(event_id) AS event_id, sum(step) AS step FROM (
        SELECT topic, broker_name, valid_from AS since, opened_by AS event_id, 1 AS step FROM rows
        UNION ALL SELECT topic, broker_name, valid_to, closed_by, -1 FROM rows WHERE valid_to IS NOT NULL
    ) GROUP BY topic, broker_name, since HAVING sum(step) <> 0
), states AS (
    SELECT topic, broker_name, event_id, since AS from_time, lead(since) OVER in_time AS to_time,
        sum(step) OVER in_time AS known
    FROM steps WINDOW in_time AS (PARTITION BY topic, broker_name ORDER BY since)
), apart AS (
    SELECT s.* FROM states AS s, (SELECT count(DISTINCT namesrv_id) AS all_of_them FROM namesrv_settings WHERE day IN ({days}))
    WHERE known > 0 AND known < all_of_them AND {alive}
)
SELECT a.broker_name, a.from_time, a.to_time, list(DISTINCT r.namesrv_id ORDER BY r.namesrv_id) AS known_to,
    count(DISTINCT a.topic) AS topic_count, list(DISTINCT a.topic ORDER BY a.topic)[:5] AS topics, a.event_id
FROM apart AS a JOIN rows AS r ON r.topic IS NOT DISTINCT FROM a.topic AND r.broker_name IS NOT DISTINCT FROM a.broker_name
    AND r.valid_from <= a.from_time AND (r.valid_to IS NULL OR r.valid_to > a.from_time)
GROUP BY a.broker_name, a.from_time, a.to_time, a.event_id ORDER BY a.from_time, a.broker_name

-- Times in which some of the name servers had a topic of a broker and others did not.
SELECT
    broker_name, from_time, to_time, list_sort(list_distinct(flatten(list(known_to)))) AS known_to,
    count(DISTINCT topic) AS topic_count, list(DISTINCT topic ORDER BY topic)[:5] AS topics, opened_by AS event_id
FROM namesrv_divergence
WHERE len(known_to) < (SELECT count(DISTINCT namesrv_id) FROM namesrv_settings) AND {alive}
    AND ($topic IS NULL OR topic = $topic) AND {of_brokers}
GROUP BY broker_name, from_time, to_time, opened_by
ORDER BY from_time, broker_name

-- What changed routes: which of them, how, and what was behind it.
WITH changed AS (
    SELECT namesrv_id, caused_by AS event_id, min(effect_time) AS effect_time, min(seq) AS seq,
        count(*) FILTER (change = 'appeared') AS appeared, count(*) FILTER (change = 'changed') AS changed,
        count(*) FILTER (change = 'vanished') AS vanished, count(*) FILTER (change = 'learned') AS learned,
        list(DISTINCT topic ORDER BY topic) AS topics
    FROM route_changes
    WHERE day IN ({days}) AND effect_time >= $a AND effect_time < $b AND ($topic IS NULL OR topic = $topic)
        AND {of_namesrv}
    GROUP BY namesrv_id, caused_by
)
SELECT c.* EXCLUDE (topics, seq), c.topics[:5] AS topics, len(c.topics) AS topic_count, w.operation, w.outcome,
    w.broker_name, w.broker_addr, w.channel_id, w.source_file, w.source_offset
FROM changed AS c
LEFT JOIN causes AS w ON w.day IN ({days}) AND w.namesrv_id = c.namesrv_id AND w.event_id = c.event_id
WHERE $brokers IS NULL OR $topic IS NOT NULL OR list_contains($brokers, w.broker_name)
ORDER BY c.effect_time, c.namesrv_id, c.seq

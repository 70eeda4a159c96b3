-- Changes of routes: which routes, how, and by which event. Plain heartbeats change none, so `other_events` has all these events.
WITH changed AS (
    SELECT namesrv_id, caused_by AS event_id, min(effect_time) AS effect_time, min(seq) AS seq,
        count(*) FILTER (change = 'appeared') AS appeared, count(*) FILTER (change = 'changed') AS changed,
        count(*) FILTER (change = 'vanished') AS vanished, count(*) FILTER (change = 'learned') AS learned,
        list(DISTINCT topic ORDER BY topic) AS topics
    FROM route_changes
    WHERE effect_time >= $a AND effect_time < $b AND ($topic IS NULL OR topic = $topic) AND {of_namesrv}
    GROUP BY namesrv_id, caused_by
)
SELECT c.* EXCLUDE (topics, seq), c.topics[:5] AS topics, len(c.topics) AS topic_count, o.operation, o.outcome,
    coalesce(o.broker_name, e.broker_name) AS broker_name, coalesce(o.broker_addr, e.broker_addr) AS broker_addr,
    e.source_file, e.source_offset
FROM changed AS c
LEFT JOIN event_outcomes AS o ON o.namesrv_id = c.namesrv_id AND o.event_id = c.event_id
LEFT JOIN other_events AS e ON e.namesrv_id = c.namesrv_id AND e.event_id = c.event_id
WHERE $brokers IS NULL OR $topic IS NOT NULL OR list_contains($brokers, coalesce(o.broker_name, e.broker_name))
ORDER BY c.effect_time, c.namesrv_id, c.seq

-- Which brokers first registered, or came back, with a single topic; how long did they stay partial, or were they refused?
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr, effect_time, outcome
-- column complete_time: first registration with more topics; NULL = none seen
-- column partial_ms: milliseconds from the first registration to complete_time
-- columns: event_id, source_file, source_offset
WITH lone AS (
    SELECT r.*, coalesce(o.outcome, 'refreshed') AS outcome
    FROM registrations AS r
    LEFT JOIN event_outcomes AS o ON o.namesrv_id = r.namesrv_id AND o.day = r.day AND o.event_id = r.event_id
    LEFT JOIN broker_lives AS l ON l.namesrv_id = r.namesrv_id AND l.opened_by = r.event_id
    WHERE r.topic_count = 1 AND (l.opened_by IS NOT NULL OR o.outcome = 'refused_lone_topic')
)
SELECT
    p.namesrv_id, p.broker_name, p.broker_addr, p.effect_time, p.outcome, min(more.effect_time) AS complete_time,
    timestampdiff(MILLISECOND, p.effect_time, min(more.effect_time)) AS partial_ms, p.event_id, p.source_file, p.source_offset
FROM lone AS p
LEFT JOIN registrations AS more
    ON more.namesrv_id = p.namesrv_id AND more.broker_addr = p.broker_addr AND more.topic_count > 1
    AND more.effect_time > p.effect_time
WHERE {within(p.effect_time)}
GROUP BY
    p.namesrv_id, p.broker_name, p.broker_addr, p.effect_time, p.outcome, p.event_id, p.source_file, p.source_offset
ORDER BY p.effect_time, p.namesrv_id

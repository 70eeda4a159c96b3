-- Which brokers came (back) with a single topic, and how long did they stay partial, or were they refused?
-- group: availability
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column broker_name: broker name
-- column broker_addr: broker address
-- column effect_time: when
-- column outcome: what became of it
-- column complete_time: first registration with more topics; NULL = none seen
-- column partial_ms: milliseconds until then
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
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
WHERE (:since IS NULL OR p.effect_time >= :since)
    AND (:until IS NULL OR p.effect_time < :until)
GROUP BY
    p.namesrv_id, p.broker_name, p.broker_addr, p.effect_time, p.outcome, p.event_id, p.source_file, p.source_offset
ORDER BY p.effect_time, p.namesrv_id

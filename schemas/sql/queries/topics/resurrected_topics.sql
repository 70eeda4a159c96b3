-- Which topics came back after an admin had deleted them, and which registration brought them back?
-- parameters: since, until
-- columns: namesrv_id, topic
-- column deleted_time: when it was deleted
-- column deleted_by: event that deleted it
-- column back_time: when it came back
-- columns: operation, broker_name, event_id, source_file, source_offset
WITH deleted AS (
    SELECT
        o.namesrv_id, o.topic, o.event_id, min(o.effect_time) AS deleted_time, max(q.closed_at) AS position,
        collect_set(q.broker_name) AS names, count(r.seq) > 0 AS is_whole
    FROM event_outcomes AS o
    JOIN topic_queue_history AS q ON q.namesrv_id = o.namesrv_id AND q.topic = o.topic AND q.closed_by = o.event_id
    LEFT JOIN route_changes AS r
        ON r.namesrv_id = o.namesrv_id AND r.topic = o.topic AND r.caused_by = o.event_id AND r.change = 'vanished'
    WHERE o.operation = 'delete_topic' AND {within(o.effect_time)}
    GROUP BY o.namesrv_id, o.topic, o.event_id
), back AS (
    -- of a topic that another cluster still has, on a broker that had it
    SELECT
        d.namesrv_id, d.topic, d.deleted_time, d.event_id AS deleted_by, min(a.valid_from) AS back_time,
        min_by(a.opened_by, a.opened_at) AS event_id
    FROM deleted AS d
    JOIN topic_queue_history AS a ON a.namesrv_id = d.namesrv_id AND a.topic = d.topic AND a.opened_at > d.position
    WHERE d.is_whole OR array_contains(d.names, a.broker_name)
    GROUP BY d.namesrv_id, d.topic, d.deleted_time, d.event_id
)
SELECT
    b.namesrv_id, b.topic, b.deleted_time, b.deleted_by, b.back_time, c.operation, c.broker_name, b.event_id, c.source_file,
    c.source_offset
FROM back AS b
LEFT JOIN causes AS c ON c.namesrv_id = b.namesrv_id AND c.event_id = b.event_id
ORDER BY b.back_time, b.namesrv_id, b.topic

-- Which topics came back after an admin had deleted them, and which registration brought them back?
-- parameters: since, until
-- columns: namesrv_id, topic
-- column deleted_time: when it was deleted
-- column deleted_by: event that deleted it
-- column back_time: when it came back
-- columns: operation, broker_name, event_id, source_file, source_offset
WITH back AS (
    SELECT
        d.namesrv_id, d.topic, d.effect_time AS deleted_time, d.caused_by AS deleted_by, min(a.effect_time) AS back_time,
        min_by(a.caused_by, a.seq) AS event_id
    FROM route_changes AS d
    JOIN event_outcomes AS o
        ON o.namesrv_id = d.namesrv_id AND o.day = d.day AND o.event_id = d.caused_by AND o.operation = 'delete_topic'
    JOIN route_changes AS a
        ON a.namesrv_id = d.namesrv_id AND a.topic = d.topic AND a.seq > d.seq AND a.change = 'appeared'
    WHERE d.change = 'vanished' AND {within(d.effect_time)}
    GROUP BY d.namesrv_id, d.topic, d.effect_time, d.caused_by
)
SELECT
    b.namesrv_id, b.topic, b.deleted_time, b.deleted_by, b.back_time, c.operation, c.broker_name, b.event_id, c.source_file,
    c.source_offset
FROM back AS b
LEFT JOIN causes AS c ON c.namesrv_id = b.namesrv_id AND c.event_id = b.event_id
ORDER BY b.back_time, b.namesrv_id, b.topic

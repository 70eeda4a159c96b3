-- Which topics that an admin deleted came back, and who brought them?
-- group: topics
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column topic: topic
-- column deleted_time: when it was deleted
-- column deleted_by: event that deleted it
-- column back_time: when it was back
-- column operation: what that event was
-- column broker_name: broker name
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
WITH back AS (
    SELECT
        d.namesrv_id, d.topic, d.effect_time AS deleted_time, d.caused_by AS deleted_by, min(a.effect_time) AS back_time,
        min_by(a.caused_by, a.seq) AS event_id
    FROM route_changes AS d
    JOIN event_outcomes AS o
        ON o.namesrv_id = d.namesrv_id AND o.day = d.day AND o.event_id = d.caused_by AND o.operation = 'delete_topic'
    JOIN route_changes AS a
        ON a.namesrv_id = d.namesrv_id AND a.topic = d.topic AND a.seq > d.seq AND a.change = 'appeared'
    WHERE d.change = 'vanished' AND (:since IS NULL OR d.effect_time >= :since)
    AND (:until IS NULL OR d.effect_time < :until)
    GROUP BY d.namesrv_id, d.topic, d.effect_time, d.caused_by
)
SELECT
    b.namesrv_id, b.topic, b.deleted_time, b.deleted_by, b.back_time, c.operation, c.broker_name, b.event_id, c.source_file,
    c.source_offset
FROM back AS b
LEFT JOIN causes AS c ON c.namesrv_id = b.namesrv_id AND c.event_id = b.event_id
ORDER BY b.back_time, b.namesrv_id, b.topic

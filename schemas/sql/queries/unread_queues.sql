-- Where are there fewer queues to read from than to write to, so that messages stay unread, and for how long?
-- group: availability
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column topic: topic
-- column broker_name: broker name
-- column read_queue_nums: queues to read from
-- column write_queue_nums: queues to write to
-- column from_time: start
-- column to_time: end, exclusive; NULL = not over
-- column lasted_ms: milliseconds; NULL = not over
-- column operation: what that event was
-- column event_id: event that did it
SELECT
    h.namesrv_id, h.topic, h.broker_name, h.read_queue_nums, h.write_queue_nums, h.valid_from AS from_time,
    h.valid_to AS to_time, timestampdiff(MILLISECOND, h.valid_from, h.valid_to) AS lasted_ms, o.operation,
    h.opened_by AS event_id
FROM topic_queue_history AS h
LEFT JOIN event_outcomes AS o ON o.namesrv_id = h.namesrv_id AND o.event_id = h.opened_by
WHERE h.read_queue_nums < h.write_queue_nums AND (:until IS NULL OR h.valid_from < :until)
    AND (:since IS NULL OR h.valid_to IS NULL OR h.valid_to > :since)
ORDER BY from_time, h.namesrv_id, h.topic, h.broker_name

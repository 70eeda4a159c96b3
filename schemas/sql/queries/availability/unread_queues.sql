-- Which topics have fewer queues to read from than to write to, so that messages stay unread, and for how long?
-- parameters: since, until
-- columns: namesrv_id, topic, broker_name
-- column read_queue_nums: queues to read from
-- column write_queue_nums: queues to write to
-- columns: from_time, to_time, lasted_ms, operation, event_id
SELECT
    h.namesrv_id, h.topic, h.broker_name, h.read_queue_nums, h.write_queue_nums, h.valid_from AS from_time,
    h.valid_to AS to_time, timestampdiff(MILLISECOND, h.valid_from, h.valid_to) AS lasted_ms, o.operation,
    h.opened_by AS event_id
FROM topic_queue_history AS h
LEFT JOIN event_outcomes AS o ON o.namesrv_id = h.namesrv_id AND o.event_id = h.opened_by
WHERE h.read_queue_nums < h.write_queue_nums AND {overlaps(h.valid_from, h.valid_to)}
ORDER BY from_time, h.namesrv_id, h.topic, h.broker_name

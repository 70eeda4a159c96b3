-- Which brokers' topics lost their write permission, by which event, and did they get it back?
-- parameters: broker, since, until
-- columns: namesrv_id, topic, broker_name
-- column lost_time: when the permission was lost
-- column back_time: when the permission was back; NULL = not yet
-- columns: operation, event_id, source_file, source_offset
SELECT
    q.namesrv_id, q.topic, q.broker_name, q.effect_time AS lost_time, min(back.valid_from) AS back_time, c.operation,
    q.event_id, c.source_file, c.source_offset
FROM queue_changes AS q
-- the permission is back when the row changes, or with a new row after the broker was gone
LEFT JOIN topic_queue_history AS back
    ON back.namesrv_id = q.namesrv_id AND back.topic = q.topic AND back.broker_name = q.broker_name
    AND back.valid_from > q.effect_time AND back.perm & 2 <> 0
LEFT JOIN causes AS c ON c.namesrv_id = q.namesrv_id AND c.event_id = q.event_id
WHERE q.perm_before & 2 <> 0 AND q.perm_after & 2 = 0 AND (:broker IS NULL OR q.broker_name = :broker)
    AND {within(q.effect_time)}
GROUP BY q.namesrv_id, q.topic, q.broker_name, q.effect_time, c.operation, q.event_id, c.source_file, c.source_offset
ORDER BY lost_time, q.namesrv_id, q.broker_name, q.topic

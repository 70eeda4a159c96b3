-- Which topics have fewer queues to read from than to write to, so that messages stay unread, and for how long?
-- parameters: since, until
-- columns: namesrv_id, topic, broker_name
-- column read_queue_nums: queues to read from
-- column write_queue_nums: queues to write to
-- columns: from_time, to_time, lasted_ms, operation, event_id
WITH unread AS (
    SELECT
        struct(namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums) AS what, valid_from, valid_to, opened_by,
        closed_by, opened_at
    FROM topic_queue_history
    WHERE read_queue_nums < write_queue_nums
)
SELECT
    s.what.namesrv_id, s.what.topic, s.what.broker_name, s.what.read_queue_nums, s.what.write_queue_nums, s.from_time,
    s.to_time, timestampdiff(MILLISECOND, s.from_time, s.to_time) AS lasted_ms, o.operation, s.opened_by AS event_id
FROM {stays(unread)} AS s
LEFT JOIN event_outcomes AS o ON o.namesrv_id = s.what.namesrv_id AND o.event_id = s.opened_by
WHERE {overlaps(s.from_time, s.to_time)}
ORDER BY s.from_time, s.what.namesrv_id, s.what.topic, s.what.broker_name

-- Which topics have fewer queues to read from than to write to, so that messages stay unread, and for how long?
-- parameters: since, until
-- columns: namesrv_id, topic, broker_name
-- column read_queue_nums: queues to read from
-- column write_queue_nums: queues to write to
-- columns: from_time, to_time, lasted_ms, operation, event_id
WITH unread AS (
    SELECT *, sum(IF(goes_on, 0, 1)) OVER place AS stay
    FROM (
        -- a row with these numbers that the event opened which closed the one before it goes on with it
        SELECT *, coalesce(lag(closed_by) OVER place = opened_by, FALSE) AS goes_on
        FROM topic_queue_history
        WHERE read_queue_nums < write_queue_nums
        WINDOW place AS (PARTITION BY namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums ORDER BY opened_at)
    )
    WINDOW place AS (PARTITION BY namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums ORDER BY opened_at)
), stays AS (
    SELECT
        namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums, min(valid_from) AS from_time,
        IF(count(valid_to) = count(*), max(valid_to), NULL) AS to_time, min_by(opened_by, opened_at) AS event_id
    FROM unread
    GROUP BY namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums, stay
)
SELECT
    s.namesrv_id, s.topic, s.broker_name, s.read_queue_nums, s.write_queue_nums, s.from_time, s.to_time,
    timestampdiff(MILLISECOND, s.from_time, s.to_time) AS lasted_ms, o.operation, s.event_id
FROM stays AS s
LEFT JOIN event_outcomes AS o ON o.namesrv_id = s.namesrv_id AND o.event_id = s.event_id
WHERE {overlaps(s.from_time, s.to_time)}
ORDER BY s.from_time, s.namesrv_id, s.topic, s.broker_name

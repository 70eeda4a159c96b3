-- How did each broker leave (scan, lost connection or unregistration), how late was it noticed, and what was lost?
-- parameters: broker, since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column came_time: when its live entry was added
-- column left_time: when it left
-- columns: operation, outcome
-- column last_beat_time: last heartbeat; NULL = the broker had not fallen silent
-- column detection_lag_ms: milliseconds from that heartbeat to the removal
-- column topics_lost: number of topics that lost the queues of its broker name by this event
-- columns: event_id, source_file, source_offset
SELECT
    l.namesrv_id, l.broker_name, l.broker_addr, l.from_time AS came_time, l.to_time AS left_time, c.operation, c.outcome,
    x.last_beat_time, x.detection_lag_ms, coalesce(t.topics, 0) AS topics_lost, l.closed_by AS event_id, c.source_file, c.source_offset
FROM broker_lives AS l
LEFT JOIN causes AS c ON c.namesrv_id = l.namesrv_id AND c.event_id = l.closed_by
LEFT JOIN expired_brokers AS x
    ON x.namesrv_id = l.namesrv_id AND x.broker_addr = l.broker_addr AND x.removed_by = l.closed_by
LEFT JOIN (
    SELECT q.namesrv_id, q.broker_name, q.closed_by, count(*) AS topics
    FROM topic_queue_history AS q
    -- a row replaced by the same event is no loss
    LEFT JOIN topic_queue_history AS n
        ON n.namesrv_id = q.namesrv_id AND n.topic <=> q.topic AND n.broker_name <=> q.broker_name AND n.opened_by = q.closed_by
    WHERE n.opened_by IS NULL AND q.closed_by IS NOT NULL AND (:broker IS NULL OR q.broker_name = :broker) AND {within(q.valid_to)}
    GROUP BY q.namesrv_id, q.broker_name, q.closed_by
) AS t ON t.namesrv_id = l.namesrv_id AND t.broker_name <=> l.broker_name AND t.closed_by = l.closed_by
WHERE l.closed_by IS NOT NULL AND (:broker IS NULL OR l.broker_name = :broker) AND {within(l.to_time)}
ORDER BY left_time, l.namesrv_id, l.broker_addr

-- Which topics had no writable queue, on which name server, since when, and which event did it?
-- group: availability
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- parameter topic STRING = NULL: only this topic
-- column namesrv_id: name server
-- column topic: topic
-- column from_time: start
-- column to_time: end, exclusive; NULL = not over
-- column operation: what that event was
-- column broker_name: broker name
-- column broker_addr: its address; of a close that of the broker that went
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
SELECT
    i.namesrv_id, i.topic, i.valid_from AS from_time, i.valid_to AS to_time, c.operation, c.broker_name, c.broker_addr,
    i.opened_by AS event_id, c.source_file, c.source_offset
FROM orphaned_topics AS i
LEFT JOIN causes AS c ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE i.reason = 'no_writable_queue' AND (:until IS NULL OR i.valid_from < :until)
    AND (:since IS NULL OR i.valid_to IS NULL OR i.valid_to > :since)
    AND (:topic IS NULL OR i.topic = :topic)
ORDER BY i.valid_from, i.topic, i.namesrv_id

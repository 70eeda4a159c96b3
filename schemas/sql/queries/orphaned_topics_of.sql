-- Which topics are routed to a broker that has no address or no live entry?
-- group: topics
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column topic: topic
-- column reason: no_broker_address, no_live_broker or no_master
-- column from_time: start
-- column to_time: end, exclusive; NULL = not over
-- column operation: what that event was
-- column broker_name: broker name
-- column event_id: event that did it
-- column closed_by: event that ended it
SELECT
    i.namesrv_id, i.topic, i.reason, i.valid_from AS from_time, i.valid_to AS to_time, c.operation, c.broker_name,
    i.opened_by AS event_id, i.closed_by
FROM orphaned_topics AS i
LEFT JOIN causes AS c ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE i.reason IN ('no_broker_address', 'no_live_broker', 'no_master') AND (:until IS NULL OR i.valid_from < :until)
    AND (:since IS NULL OR i.valid_to IS NULL OR i.valid_to > :since)
ORDER BY i.valid_from, i.topic, i.namesrv_id, i.reason

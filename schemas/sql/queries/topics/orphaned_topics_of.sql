-- Which topics are routed to a broker that has no address or no live entry?
-- parameters: since, until
-- columns: namesrv_id, topic
-- column reason: no_broker_address, no_live_broker or no_master
-- columns: from_time, to_time, operation, broker_name, event_id, closed_by
SELECT
    i.namesrv_id, i.topic, i.reason, i.valid_from AS from_time, i.valid_to AS to_time, c.operation, c.broker_name,
    i.opened_by AS event_id, i.closed_by
FROM orphaned_topics AS i
LEFT JOIN causes AS c ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE i.reason IN ('no_broker_address', 'no_live_broker', 'no_master') AND {overlaps(i.valid_from, i.valid_to)}
ORDER BY i.valid_from, i.topic, i.namesrv_id, i.reason

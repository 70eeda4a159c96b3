-- Which topics had no writable queue, on which name server, since when, and by which event?
-- parameters: since, until
-- parameter topic STRING = NULL: only this topic
-- columns: namesrv_id, topic, from_time, to_time, operation, broker_name
-- column broker_addr: broker address; for a close that of the broker that it removed
-- columns: event_id, source_file, source_offset
SELECT
    i.namesrv_id, i.topic, i.valid_from AS from_time, i.valid_to AS to_time, c.operation, c.broker_name, c.broker_addr,
    i.opened_by AS event_id, c.source_file, c.source_offset
FROM orphaned_topics AS i
LEFT JOIN causes AS c ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE i.reason = 'no_writable_queue' AND {overlaps(i.valid_from, i.valid_to)}
    -- clients do not send to these: system topics that 5.x makes for each member of a group
    AND (i.topic = :topic OR :topic IS NULL AND NOT startswith(coalesce(i.topic, ''), 'rmq_sys_SYNC_BROKER_MEMBER_'))
ORDER BY i.valid_from, i.topic, i.namesrv_id

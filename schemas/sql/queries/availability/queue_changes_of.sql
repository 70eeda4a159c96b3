-- When did the queues or the permission of a topic change while it was routed, and by whose registration?
-- parameter topic STRING: topic
-- parameters: since, until
-- columns: namesrv_id, broker_name, effect_time
-- column read_before: queues to read from before
-- column read_after: queues to read from after
-- column write_before: queues to write to before
-- column write_after: queues to write to after
-- column perm_before: permission bits before
-- column perm_after: permission bits after
-- columns: operation, event_id, source_file, source_offset
SELECT
    q.namesrv_id, q.broker_name, q.effect_time, q.read_before, q.read_after, q.write_before, q.write_after, q.perm_before,
    q.perm_after, c.operation, q.event_id, c.source_file, c.source_offset
FROM queue_changes AS q
LEFT JOIN causes AS c ON c.namesrv_id = q.namesrv_id AND c.event_id = q.event_id
WHERE q.topic = :topic AND {within(q.effect_time)}
ORDER BY q.effect_time DESC, q.namesrv_id, q.broker_name

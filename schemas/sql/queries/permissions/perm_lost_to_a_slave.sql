-- Which registrations of slaves took the write permission from the topics of a broker?
-- parameters: since, until
-- columns: namesrv_id, broker_name, effect_time
-- column broker_id: broker id, 0 = master
-- columns: broker_addr
-- column topics: number of topics that lost the permission
-- columns: event_id, source_file, source_offset
SELECT
    q.namesrv_id, q.broker_name, q.effect_time, c.broker_id, c.broker_addr, count(*) AS topics, q.event_id, c.source_file,
    c.source_offset
FROM queue_changes AS q
JOIN causes AS c
    ON c.namesrv_id = q.namesrv_id AND c.event_id = q.event_id AND c.operation = 'register_broker' AND c.broker_id <> 0
WHERE q.perm_before & 2 <> 0 AND q.perm_after & 2 = 0 AND {within(q.effect_time)}
GROUP BY q.namesrv_id, q.broker_name, q.effect_time, c.broker_id, c.broker_addr, q.event_id, c.source_file, c.source_offset
ORDER BY q.effect_time, q.namesrv_id, q.broker_name

-- Did the registration of a slave take the write permission from the topics of a broker?
-- group: permissions
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column broker_name: broker name
-- column effect_time: when
-- column broker_id: broker id, 0 = master
-- column broker_addr: broker address
-- column topics: topics that lost it
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
SELECT
    q.namesrv_id, q.broker_name, q.effect_time, c.broker_id, c.broker_addr, count(*) AS topics, q.event_id, c.source_file,
    c.source_offset
FROM queue_changes AS q
JOIN causes AS c
    ON c.namesrv_id = q.namesrv_id AND c.event_id = q.event_id AND c.operation = 'register_broker' AND c.broker_id <> 0
WHERE q.perm_before & 2 <> 0 AND q.perm_after & 2 = 0 AND (:since IS NULL OR q.effect_time >= :since)
    AND (:until IS NULL OR q.effect_time < :until)
GROUP BY q.namesrv_id, q.broker_name, q.effect_time, c.broker_id, c.broker_addr, q.event_id, c.source_file, c.source_offset
ORDER BY q.effect_time, q.namesrv_id, q.broker_name

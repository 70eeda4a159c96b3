-- Which brokers send heartbeats with a broker id other than the registered one?
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column claimed_id: broker id in its heartbeats
-- column held_id: id under which the name server has the address
-- column first_time: first such heartbeat
-- column last_time: last such heartbeat
-- column beats: number of such heartbeats
-- column event_id: event_id of the first such heartbeat
-- column opened_by: event that registered the id that is held
SELECT
    b.namesrv_id, b.broker_name, b.broker_addr, b.broker_id AS claimed_id, h.broker_id AS held_id,
    min(b.effect_time) AS first_time, max(b.effect_time) AS last_time, count(*) AS beats,
    min_by(b.event_id, b.seq) AS event_id, h.opened_by
FROM heartbeats AS b
JOIN broker_addr_history AS h
    ON h.namesrv_id = b.namesrv_id AND h.broker_name = b.broker_name AND h.broker_addr = b.broker_addr
    AND h.valid_from <= b.effect_time AND (h.valid_to IS NULL OR h.valid_to > b.effect_time)
    AND h.broker_id <> b.broker_id
WHERE {within(b.effect_time)}
GROUP BY b.namesrv_id, b.broker_name, b.broker_addr, b.broker_id, h.broker_id, h.opened_by
ORDER BY first_time, b.namesrv_id, b.broker_addr

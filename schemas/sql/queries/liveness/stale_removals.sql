-- Which fresh registrations were wiped by a removal that had been decided before them?
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column registered_time: when the fresh registration took effect
-- column registered_by: event_id of that registration
-- column decided_time: when the event that removed it had arrived
-- column removed_time: when the removal took effect
-- columns: operation
-- column removed_by: event that removed it
-- column back_time: when the broker was back; NULL = not seen
SELECT
    l.namesrv_id, l.broker_name, l.broker_addr, max(r.effect_time) AS registered_time,
    max_by(r.event_id, r.seq) AS registered_by, e.event_time AS decided_time, l.to_time AS removed_time,
    e.kind AS operation, l.closed_by AS removed_by, min(back.from_time) AS back_time
FROM broker_lives AS l
JOIN events AS e ON e.namesrv_id = l.namesrv_id AND e.event_id = l.closed_by
JOIN registrations AS r
    ON r.namesrv_id = l.namesrv_id AND r.broker_addr = l.broker_addr AND r.effect_time < l.to_time
    AND r.event_time > e.event_time AND r.refusal IS NULL
LEFT JOIN broker_lives AS back
    ON back.namesrv_id = l.namesrv_id AND back.broker_addr = l.broker_addr AND back.from_time >= l.to_time
WHERE {within(l.to_time)}
GROUP BY l.namesrv_id, l.broker_name, l.broker_addr, e.event_time, l.to_time, e.kind, l.closed_by
ORDER BY removed_time, l.namesrv_id, l.broker_addr

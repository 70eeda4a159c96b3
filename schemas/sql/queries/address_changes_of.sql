-- Which brokers changed their address, and how many topics vanished when the old one went?
-- group: identity and roles
-- parameter broker STRING = NULL: only this broker name
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column broker_name: broker name
-- column broker_id: broker id, 0 = master
-- column addr_before: address before
-- column addr_after: address after
-- column left_time: when the former one went
-- column effect_time: when
-- column gap_ms: milliseconds between them; 0: taken over
-- column topics_vanished: topics that lost their route when the former one went
-- column left_by: event with which it went
-- column event_id: event that did it
SELECT
    a.namesrv_id, a.broker_name, a.broker_id, a.addr_before, a.addr_after, a.left_time, a.effect_time, a.gap_ms,
    count(r.topic) AS topics_vanished, a.left_by, a.event_id
FROM address_changes AS a
LEFT JOIN route_changes AS r
    ON r.namesrv_id = a.namesrv_id AND r.caused_by = a.left_by AND r.change = 'vanished'
WHERE (:broker IS NULL OR a.broker_name = :broker) AND (:since IS NULL OR a.effect_time >= :since)
    AND (:until IS NULL OR a.effect_time < :until)
GROUP BY
    a.namesrv_id, a.broker_name, a.broker_id, a.addr_before, a.addr_after, a.left_time, a.effect_time, a.gap_ms, a.left_by,
    a.event_id
ORDER BY a.effect_time, a.namesrv_id, a.broker_name

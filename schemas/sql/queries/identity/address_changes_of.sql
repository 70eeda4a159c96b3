-- Which brokers changed their address, and how many topics vanished when the old address left?
-- parameters: broker, since, until
-- columns: namesrv_id, broker_name
-- column broker_id: broker id, 0 = master
-- column addr_before: address before
-- column addr_after: address after
-- column left_time: when the former address left
-- columns: effect_time
-- column gap_ms: milliseconds between them; 0: the new address took the id over
-- column topics_vanished: topics that lost their route when the former address left
-- column left_by: event that removed the former address
-- columns: event_id
SELECT
    a.namesrv_id, a.broker_name, a.broker_id, a.addr_before, a.addr_after, a.left_time, a.effect_time, a.gap_ms,
    count(r.topic) AS topics_vanished, a.left_by, a.event_id
FROM address_changes AS a
LEFT JOIN route_changes AS r
    ON r.namesrv_id = a.namesrv_id AND r.caused_by = a.left_by AND r.change = 'vanished'
WHERE (:broker IS NULL OR a.broker_name = :broker) AND {within(a.effect_time)}
GROUP BY ALL
ORDER BY a.effect_time, a.namesrv_id, a.broker_name

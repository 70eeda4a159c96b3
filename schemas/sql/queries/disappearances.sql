-- Which topics disappeared, how many at once, and was it an admin, a registration, or the loss of a broker?
-- group: topics
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column effect_time: when
-- column topics: how many lost their route
-- column names: the first five of them
-- column operation: what that event was
-- column outcome: what became of it
-- column broker_name: broker name
-- column broker_addr: broker address
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
SELECT
    r.namesrv_id, r.effect_time, r.topics, r.names, c.operation, c.outcome, c.broker_name, c.broker_addr,
    r.caused_by AS event_id, c.source_file, c.source_offset
FROM (
    SELECT
        namesrv_id, effect_time, caused_by, count(*) AS topics,
        array_join(slice(array_sort(collect_list(topic)), 1, 5), ', ') AS names
    FROM route_changes
    WHERE change = 'vanished' AND (:since IS NULL OR effect_time >= :since)
    AND (:until IS NULL OR effect_time < :until)
    GROUP BY namesrv_id, effect_time, caused_by
) AS r
LEFT JOIN causes AS c ON c.namesrv_id = r.namesrv_id AND c.event_id = r.caused_by
ORDER BY r.effect_time, r.namesrv_id

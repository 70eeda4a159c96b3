-- Which topics disappeared, how many at once, and by an admin, a registration, or the loss of a broker?
-- parameters: since, until
-- columns: namesrv_id, effect_time
-- column topics: number of topics that lost their route
-- column names: the first five of them
-- columns: operation, outcome, broker_name, broker_addr, event_id, source_file, source_offset
SELECT
    r.namesrv_id, r.effect_time, r.topics, r.names, c.operation, c.outcome, c.broker_name, c.broker_addr,
    r.caused_by AS event_id, c.source_file, c.source_offset
FROM (
    SELECT
        namesrv_id, effect_time, caused_by, count(*) AS topics,
        array_join(slice(array_sort(collect_list(topic)), 1, 5), ', ') AS names
    FROM route_changes
    WHERE change = 'vanished' AND {within(effect_time)}
    GROUP BY namesrv_id, effect_time, caused_by
) AS r
LEFT JOIN causes AS c ON c.namesrv_id = r.namesrv_id AND c.event_id = r.caused_by
ORDER BY r.effect_time, r.namesrv_id

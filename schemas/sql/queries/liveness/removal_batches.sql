-- How many brokers did one event remove, and how many topics lost their routes?
-- parameters: since, until
-- columns: namesrv_id, effect_time, operation
-- column brokers: number of live entries removed
-- column broker_names: their broker names
-- column topics_vanished: number of topics that lost their route
-- column topics_changed: number of topics whose route changed
-- columns: event_id, source_file, source_offset
SELECT
    l.namesrv_id, l.to_time AS effect_time, c.operation, l.brokers, l.broker_names,
    coalesce(r.vanished, 0) AS topics_vanished, coalesce(r.changed, 0) AS topics_changed, l.closed_by AS event_id,
    c.source_file, c.source_offset
FROM (
    SELECT
        namesrv_id, closed_by, to_time, count(*) AS brokers,
        array_join(array_sort(collect_set(broker_name)), ', ') AS broker_names
    FROM broker_lives
    WHERE closed_by IS NOT NULL
    GROUP BY namesrv_id, closed_by, to_time
) AS l
LEFT JOIN (
    SELECT
        namesrv_id, caused_by, sum(IF(change = 'vanished', 1, 0)) AS vanished, sum(IF(change = 'changed', 1, 0)) AS changed
    FROM route_changes
    GROUP BY namesrv_id, caused_by
) AS r ON r.namesrv_id = l.namesrv_id AND r.caused_by = l.closed_by
LEFT JOIN causes AS c ON c.namesrv_id = l.namesrv_id AND c.event_id = l.closed_by
WHERE {within(l.to_time)}
ORDER BY l.brokers DESC, topics_vanished DESC, effect_time, l.namesrv_id

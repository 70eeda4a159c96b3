-- How many brokers went with one event, and how many topics lost their routes with them?
-- group: liveness
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column effect_time: when
-- column operation: what that event was
-- column brokers: live entries that went
-- column broker_names: their broker names
-- column topics_vanished: topics that lost their route
-- column topics_changed: topics whose route changed
-- column event_id: event that did it
-- column source_file: file in which it is recorded; NULL for a scan
-- column source_offset: packet or line in that file
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
WHERE (:since IS NULL OR l.to_time >= :since)
    AND (:until IS NULL OR l.to_time < :until)
ORDER BY l.brokers DESC, topics_vanished DESC, effect_time, l.namesrv_id

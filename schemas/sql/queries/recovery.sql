-- After a name server started, how long until each broker and each topic was back?
-- group: availability
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column started_time: when it started
-- column started_by: event that shows it
-- column what: broker or topic
-- column name: broker name and address, or topic
-- column back_time: when it was there first
-- column lag_ms: milliseconds from the start until then
-- column event_id: event that brought it
WITH starts AS (
    SELECT
        namesrv_id, event_id, effect_time,
        lead(effect_time) OVER (PARTITION BY namesrv_id ORDER BY seq) AS next_time
    FROM event_outcomes
    WHERE operation = 'namesrv_started'
), back AS (
    SELECT namesrv_id, 'broker' AS what, concat(broker_name, ' ', broker_addr) AS name, from_time AS back_time, opened_by
    FROM broker_lives
    UNION ALL
    SELECT namesrv_id, 'topic', topic, effect_time, caused_by FROM route_changes WHERE change = 'appeared'
)
SELECT
    s.namesrv_id, s.effect_time AS started_time, s.event_id AS started_by, b.what, b.name, min(b.back_time) AS back_time,
    timestampdiff(MILLISECOND, s.effect_time, min(b.back_time)) AS lag_ms, min_by(b.opened_by, b.back_time) AS event_id
FROM starts AS s
JOIN back AS b
    ON b.namesrv_id = s.namesrv_id AND b.back_time >= s.effect_time
    AND (s.next_time IS NULL OR b.back_time < s.next_time)
WHERE (:since IS NULL OR s.effect_time >= :since)
    AND (:until IS NULL OR s.effect_time < :until)
GROUP BY s.namesrv_id, s.effect_time, s.event_id, b.what, b.name
ORDER BY started_time, s.namesrv_id, b.what, back_time, b.name

-- After a name server started, how long until each broker and topic was back, and which of its earlier ones never came back?
-- parameters: since, until
-- columns: namesrv_id
-- column started_time: when it started
-- column started_by: event that shows the start
-- column what: broker or topic
-- column name: broker name and address, or topic
-- column back_time: when it was first back; NULL = not before the next start, or the end of the recording
-- column lag_ms: milliseconds from the start to back_time
-- column event_id: event that brought it back; if it is not back, the event that removed it
WITH turns AS (
    SELECT namesrv_id, seq, event_id, effect_time, operation
    FROM event_outcomes
    WHERE operation IN ('namesrv_started', 'namesrv_stopped')
), starts AS (
    SELECT namesrv_id, seq, event_id, effect_time, lead(effect_time) OVER (PARTITION BY namesrv_id ORDER BY seq) AS next_time
    FROM turns
    WHERE operation = 'namesrv_started'
), back AS (
    SELECT namesrv_id, 'broker' AS what, concat(broker_name, ' ', broker_addr) AS name, from_time AS back_time, opened_by
    FROM broker_lives
    UNION ALL
    SELECT namesrv_id, 'topic', topic, effect_time, caused_by FROM route_changes WHERE change = 'appeared'
), gone AS (
    SELECT namesrv_id, 'broker' AS what, concat(broker_name, ' ', broker_addr) AS name, closed_by FROM broker_lives
    UNION ALL
    SELECT namesrv_id, 'topic', topic, caused_by FROM route_changes WHERE change = 'vanished'
), wanted AS (
    SELECT s.namesrv_id, s.event_id, s.effect_time, b.what, b.name, b.back_time, b.opened_by, CAST(NULL AS STRING) AS gone_by
    FROM starts AS s
    JOIN back AS b
        ON b.namesrv_id = s.namesrv_id AND b.back_time >= s.effect_time
        AND (s.next_time IS NULL OR b.back_time < s.next_time)
    UNION ALL
    SELECT s.namesrv_id, s.event_id, s.effect_time, g.what, g.name, NULL, NULL, g.closed_by
    FROM starts AS s
    -- what an earlier process lost still counts if this one ended before it was back
    JOIN turns AS t
        ON t.namesrv_id = s.namesrv_id AND t.seq <= s.seq AND t.effect_time > s.effect_time - INTERVAL 7 DAY
    JOIN gone AS g ON g.namesrv_id = t.namesrv_id AND g.closed_by = t.event_id
    LEFT ANTI JOIN back AS b
        ON b.namesrv_id = g.namesrv_id AND b.what = g.what AND b.name = g.name
        AND b.back_time > t.effect_time AND b.back_time < s.effect_time
    LEFT ANTI JOIN event_outcomes AS d
        ON d.namesrv_id = g.namesrv_id AND d.operation = 'delete_topic' AND g.what = 'topic' AND d.topic = g.name
        AND d.effect_time > t.effect_time AND d.effect_time < s.effect_time
)
SELECT
    namesrv_id, effect_time AS started_time, event_id AS started_by, what, name, min(back_time) AS back_time,
    timestampdiff(MILLISECOND, effect_time, min(back_time)) AS lag_ms,
    coalesce(min_by(opened_by, back_time), min(gone_by)) AS event_id
FROM wanted
WHERE {within(effect_time)}
GROUP BY namesrv_id, effect_time, wanted.event_id, what, name
ORDER BY started_time, namesrv_id, what, back_time, name

-- After a change of a topic's route, which clients kept using the old route, and for how long each?
-- parameter topic STRING: topic
-- parameters: since, until
-- columns: namesrv_id
-- column channel_id: connection of the client
-- column answered_time: when it got its last answer before the change
-- column changed_time: first change after that
-- column change: kind of change
-- column asked_time: when it was answered again; NULL = not seen again
-- column stale_ms: milliseconds from the change to asked_time
-- column event_id: event that changed the route
-- column answer_id: event_id of the later answer
WITH answered AS (
    SELECT
        namesrv_id, channel_id, effect_time AS answered_time,
        lead(effect_time) OVER polls AS asked_time, lead(event_id) OVER polls AS answer_id
    FROM route_observations
    WHERE code = 105 AND subject = :topic
    WINDOW polls AS (PARTITION BY namesrv_id, channel_id ORDER BY seq)
)
SELECT
    t.namesrv_id, t.channel_id, t.answered_time, min(c.effect_time) AS changed_time, min_by(c.change, c.seq) AS change,
    t.asked_time, timestampdiff(MILLISECOND, min(c.effect_time), t.asked_time) AS stale_ms,
    min_by(c.caused_by, c.seq) AS event_id, t.answer_id
FROM answered AS t
JOIN route_changes AS c
    ON c.namesrv_id = t.namesrv_id AND c.topic = :topic AND c.effect_time >= t.answered_time
    AND (t.asked_time IS NULL OR c.effect_time < t.asked_time)
WHERE {within(c.effect_time)}
GROUP BY t.namesrv_id, t.channel_id, t.answered_time, t.asked_time, t.answer_id
ORDER BY changed_time, stale_ms DESC, t.namesrv_id, t.channel_id

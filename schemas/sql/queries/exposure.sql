-- After a change of a topic's route, how long did each client go on with what it had been told before?
-- group: availability
-- parameter topic STRING: topic
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column channel_id: connection of the client
-- column told_time: answer that it had before the change
-- column changed_time: first change after that
-- column change: what it was
-- column asked_time: when it was told again; NULL = not seen again
-- column stale_ms: milliseconds from the change until then
-- column event_id: event that changed the route
-- column answer_id: answer that told it again
WITH told AS (
    SELECT
        namesrv_id, channel_id, effect_time AS told_time,
        lead(effect_time) OVER polls AS asked_time, lead(event_id) OVER polls AS answer_id
    FROM route_observations
    WHERE code = 105 AND subject = :topic
    WINDOW polls AS (PARTITION BY namesrv_id, channel_id ORDER BY seq)
)
SELECT
    t.namesrv_id, t.channel_id, t.told_time, min(c.effect_time) AS changed_time, min_by(c.change, c.seq) AS change,
    t.asked_time, timestampdiff(MILLISECOND, min(c.effect_time), t.asked_time) AS stale_ms,
    min_by(c.caused_by, c.seq) AS event_id, t.answer_id
FROM told AS t
JOIN route_changes AS c
    ON c.namesrv_id = t.namesrv_id AND c.topic = :topic AND c.effect_time >= t.told_time
    AND (t.asked_time IS NULL OR c.effect_time < t.asked_time)
WHERE (:since IS NULL OR c.effect_time >= :since)
    AND (:until IS NULL OR c.effect_time < :until)
GROUP BY t.namesrv_id, t.channel_id, t.told_time, t.asked_time, t.answer_id
ORDER BY changed_time, stale_ms DESC, t.namesrv_id, t.channel_id

-- After each change of a topic's route, how many clients kept using the old route, and for how long?
-- parameter topic STRING: topic
-- parameters: since, until
-- columns: namesrv_id
-- column changed_time: when the route changed
-- column change: kind of change
-- column connections: client connections with an older answer at that time
-- column hosts: hosts of these connections
-- column not_again: connections that were not seen to ask again
-- column median_ms: median milliseconds until the other connections asked again; NULL = none did
-- column longest_ms: longest time in milliseconds until one of them asked again
-- column last_time: when the last of them asked again
-- column event_id: event that changed the route
WITH answered AS (
    SELECT
        namesrv_id, channel_id, effect_time AS answered_time, lead(effect_time) OVER polls AS asked_time
    FROM route_observations
    WHERE code = 105 AND subject = :topic
    WINDOW polls AS (PARTITION BY namesrv_id, channel_id ORDER BY seq)
)
SELECT
    c.namesrv_id, c.effect_time AS changed_time, c.change, count(*) AS connections,
    count(DISTINCT regexp_replace(t.channel_id, ':[0-9]+(#.*)?$', '')) AS hosts,
    count(IF(t.asked_time IS NULL, 1, NULL)) AS not_again,
    percentile(timestampdiff(MILLISECOND, c.effect_time, t.asked_time), 0.5) AS median_ms,
    max(timestampdiff(MILLISECOND, c.effect_time, t.asked_time)) AS longest_ms, max(t.asked_time) AS last_time,
    c.caused_by AS event_id
FROM route_changes AS c
JOIN answered AS t
    ON t.namesrv_id = c.namesrv_id AND t.answered_time <= c.effect_time
    AND (t.asked_time IS NULL OR t.asked_time > c.effect_time)
WHERE c.topic = :topic AND {within(c.effect_time)}
GROUP BY c.namesrv_id, c.effect_time, c.change, c.seq, c.caused_by
ORDER BY changed_time, c.namesrv_id

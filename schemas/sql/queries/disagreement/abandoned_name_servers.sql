-- Which name servers are asked for routes in hours in which no broker sends them heartbeats?
-- parameters: since, until
-- columns: namesrv_id
-- column hour: start of the hour
-- column answers: answers that it gave
-- column beats: heartbeats and registrations that it received
-- column last_beat_time: last heartbeat before the end of the hour; NULL = none ever
-- column event_id: event_id of that heartbeat
WITH answered AS (
    SELECT namesrv_id, date_trunc('HOUR', effect_time) AS hour, count(*) AS answers, max(effect_time) AS last_time
    FROM route_observations
    WHERE code = 105
    GROUP BY namesrv_id, date_trunc('HOUR', effect_time)
), beats AS (
    SELECT namesrv_id, effect_time, event_id FROM live_refreshes
)
SELECT
    a.namesrv_id, a.hour, a.answers, count(IF(b.effect_time >= a.hour, 1, NULL)) AS beats,
    max(b.effect_time) AS last_beat_time, max_by(b.event_id, b.effect_time) AS event_id
FROM answered AS a
LEFT JOIN beats AS b ON b.namesrv_id = a.namesrv_id AND timestampdiff(SECOND, a.hour, b.effect_time) < 3600
WHERE {within(a.hour)}
GROUP BY a.namesrv_id, a.hour, a.answers
HAVING count(IF(b.effect_time >= a.hour, 1, NULL)) = 0
ORDER BY a.hour, a.namesrv_id

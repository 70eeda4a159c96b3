-- What one route weighs from one change to the next, as JSON
-- columns: namesrv_id, topic
-- column from_time: Since when
-- column to_time: Until when; NULL = not over
-- column bytes: Length of the route as JSON
-- column event_id: Event that made it so
SELECT
    c.namesrv_id, c.topic, c.effect_time,
    lead(c.effect_time) OVER (PARTITION BY c.namesrv_id, c.topic ORDER BY c.seq),
    c.length_after, c.caused_by
FROM route_changes AS c

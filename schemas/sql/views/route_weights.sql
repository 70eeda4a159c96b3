CREATE OR REPLACE TEMPORARY VIEW route_weights (
    namesrv_id COMMENT 'Name server',
    topic COMMENT 'Topic',
    from_time COMMENT 'Since when',
    to_time COMMENT 'Until when; NULL = not over',
    bytes COMMENT 'Length of the route as JSON',
    event_id COMMENT 'Event that made it so'
)
COMMENT 'What one route weighs from one change to the next, as JSON'
AS
SELECT
    c.namesrv_id, c.topic, c.effect_time,
    lead(c.effect_time) OVER (PARTITION BY c.namesrv_id, c.topic ORDER BY c.seq),
    c.length_after, c.caused_by
FROM route_changes AS c

CREATE OR REPLACE TEMPORARY VIEW route_weights AS
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.topic,
  c.effect_time,
  LEAD(c.effect_time) OVER (PARTITION BY c.namesrv_id, c.topic ORDER BY c.seq NULLS FIRST),
  c.length_after,
  c.caused_by
FROM route_changes AS c
) AS made(namesrv_id, topic, from_time, to_time, bytes, event_id)

WITH answered AS (
  SELECT
    namesrv_id,
    DATE_TRUNC('HOUR', effect_time) AS hour,
    COUNT(*) AS answers,
    MAX(effect_time) AS last_time
  FROM route_observations
  WHERE
    code = 105
  GROUP BY
    namesrv_id,
    DATE_TRUNC('HOUR', effect_time)
), beats AS (
  SELECT
    namesrv_id,
    effect_time,
    event_id
  FROM live_refreshes
)
SELECT
  a.namesrv_id,
  a.hour,
  a.answers,
  COUNT(CASE WHEN b.effect_time >= a.hour THEN 1 ELSE NULL END) AS beats,
  MAX(b.effect_time) AS last_beat_time,
  ARG_MAX_NULL(b.event_id, b.effect_time) AS event_id
FROM answered AS a
LEFT JOIN beats AS b
  ON b.namesrv_id = a.namesrv_id AND DATE_SUB('SECOND', a.hour, b.effect_time) < 3600
WHERE
  (
    $since IS NULL OR a.hour >= $since
  )
  AND (
    $until IS NULL OR a.hour < $until
  )
GROUP BY
  a.namesrv_id,
  a.hour,
  a.answers
HAVING
  COUNT(CASE WHEN b.effect_time >= a.hour THEN 1 ELSE NULL END) = 0
ORDER BY
  a.hour NULLS FIRST,
  a.namesrv_id NULLS FIRST

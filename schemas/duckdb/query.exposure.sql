WITH told AS (
  SELECT
    namesrv_id,
    channel_id,
    effect_time AS told_time,
    LEAD(effect_time) OVER polls AS asked_time,
    LEAD(event_id) OVER polls AS answer_id
  FROM route_observations
  WHERE
    code = 105 AND subject = $topic
  WINDOW polls AS (PARTITION BY namesrv_id, channel_id ORDER BY seq NULLS FIRST)
)
SELECT
  t.namesrv_id,
  t.channel_id,
  t.told_time,
  MIN(c.effect_time) AS changed_time,
  ARG_MIN_NULL(c.change, c.seq) AS change,
  t.asked_time,
  DATE_SUB('MILLISECOND', MIN(c.effect_time), t.asked_time) AS stale_ms,
  ARG_MIN_NULL(c.caused_by, c.seq) AS event_id,
  t.answer_id
FROM told AS t
JOIN route_changes AS c
  ON c.namesrv_id = t.namesrv_id
  AND c.topic = $topic
  AND c.effect_time >= t.told_time
  AND (
    t.asked_time IS NULL OR c.effect_time < t.asked_time
  )
WHERE
  (
    $since IS NULL OR c.effect_time >= $since
  )
  AND (
    $until IS NULL OR c.effect_time < $until
  )
GROUP BY
  t.namesrv_id,
  t.channel_id,
  t.told_time,
  t.asked_time,
  t.answer_id
ORDER BY
  changed_time NULLS FIRST,
  stale_ms DESC,
  t.namesrv_id NULLS FIRST,
  t.channel_id NULLS FIRST

WITH told AS (
  SELECT
    namesrv_id,
    channel_id,
    effect_time AS told_time,
    LEAD(effect_time) OVER polls AS asked_time
  FROM route_observations
  WHERE
    code = 105 AND subject = $topic
  WINDOW polls AS (PARTITION BY namesrv_id, channel_id ORDER BY seq NULLS FIRST)
)
SELECT
  c.namesrv_id,
  c.effect_time AS changed_time,
  c.change,
  COUNT(*) AS connections,
  COUNT(DISTINCT REGEXP_REPLACE(t.channel_id, ':[0-9]+(#.*)?$', '', 'g')) AS hosts,
  COUNT(CASE WHEN t.asked_time IS NULL THEN 1 ELSE NULL END) AS not_again,
  QUANTILE_CONT(DATE_SUB('MILLISECOND', c.effect_time, t.asked_time), 0.5) AS median_ms,
  MAX(DATE_SUB('MILLISECOND', c.effect_time, t.asked_time)) AS longest_ms,
  MAX(t.asked_time) AS last_time,
  c.caused_by AS event_id
FROM route_changes AS c
JOIN told AS t
  ON t.namesrv_id = c.namesrv_id
  AND t.told_time <= c.effect_time
  AND (
    t.asked_time IS NULL OR t.asked_time > c.effect_time
  )
WHERE
  c.topic = $topic
  AND (
    $since IS NULL OR c.effect_time >= $since
  )
  AND (
    $until IS NULL OR c.effect_time < $until
  )
GROUP BY
  c.namesrv_id,
  c.effect_time,
  c.change,
  c.seq,
  c.caused_by
ORDER BY
  changed_time NULLS FIRST,
  c.namesrv_id NULLS FIRST

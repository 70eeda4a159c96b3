WITH starts AS (
  SELECT
    namesrv_id,
    event_id,
    effect_time,
    LEAD(effect_time) OVER (PARTITION BY namesrv_id ORDER BY seq NULLS FIRST) AS next_time
  FROM event_outcomes
  WHERE
    operation = 'namesrv_started'
), back AS (
  SELECT
    namesrv_id,
    'broker' AS what,
    broker_name || ' ' || broker_addr AS name,
    from_time AS back_time,
    opened_by
  FROM broker_lives
  UNION ALL
  SELECT
    namesrv_id,
    'topic',
    topic,
    effect_time,
    caused_by
  FROM route_changes
  WHERE
    change = 'appeared'
)
SELECT
  s.namesrv_id,
  s.effect_time AS started_time,
  s.event_id AS started_by,
  b.what,
  b.name,
  MIN(b.back_time) AS back_time,
  DATE_SUB('MILLISECOND', s.effect_time, MIN(b.back_time)) AS lag_ms,
  ARG_MIN_NULL(b.opened_by, b.back_time) AS event_id
FROM starts AS s
JOIN back AS b
  ON b.namesrv_id = s.namesrv_id
  AND b.back_time >= s.effect_time
  AND (
    s.next_time IS NULL OR b.back_time < s.next_time
  )
WHERE
  (
    $since IS NULL OR s.effect_time >= $since
  )
  AND (
    $until IS NULL OR s.effect_time < $until
  )
GROUP BY
  s.namesrv_id,
  s.effect_time,
  s.event_id,
  b.what,
  b.name
ORDER BY
  started_time NULLS FIRST,
  s.namesrv_id NULLS FIRST,
  b.what NULLS FIRST,
  back_time NULLS FIRST,
  b.name NULLS FIRST

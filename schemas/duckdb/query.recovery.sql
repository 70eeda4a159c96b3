WITH turns AS (
  SELECT
    namesrv_id,
    seq,
    event_id,
    effect_time,
    operation,
    COUNT(CASE WHEN operation = 'namesrv_started' THEN 1 ELSE NULL END) OVER (
      PARTITION BY namesrv_id
      ORDER BY seq NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS starts_before
  FROM event_outcomes
  WHERE
    operation IN ('namesrv_started', 'namesrv_stopped')
), starts AS (
  SELECT
    namesrv_id,
    event_id,
    effect_time,
    starts_before,
    LEAD(effect_time) OVER (PARTITION BY namesrv_id ORDER BY seq NULLS FIRST) AS next_time
  FROM turns
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
), gone AS (
  SELECT
    namesrv_id,
    'broker' AS what,
    broker_name || ' ' || broker_addr AS name,
    closed_by
  FROM broker_lives
  UNION ALL
  SELECT
    namesrv_id,
    'topic',
    topic,
    caused_by
  FROM route_changes
  WHERE
    change = 'vanished'
), wanted AS (
  SELECT
    s.namesrv_id,
    s.event_id,
    s.effect_time,
    b.what,
    b.name,
    b.back_time,
    b.opened_by,
    CAST(NULL AS TEXT) AS gone_by
  FROM starts AS s
  JOIN back AS b
    ON b.namesrv_id = s.namesrv_id
    AND b.back_time >= s.effect_time
    AND (
      s.next_time IS NULL OR b.back_time < s.next_time
    )
  UNION ALL
  SELECT
    s.namesrv_id,
    s.event_id,
    s.effect_time,
    g.what,
    g.name,
    NULL,
    NULL,
    g.closed_by
  FROM starts AS s
  JOIN turns AS t
    ON t.namesrv_id = s.namesrv_id AND t.starts_before = s.starts_before
  JOIN gone AS g
    ON g.namesrv_id = t.namesrv_id AND g.closed_by = t.event_id
)
SELECT
  namesrv_id,
  effect_time AS started_time,
  event_id AS started_by,
  what,
  name,
  MIN(back_time) AS back_time,
  DATE_SUB('MILLISECOND', effect_time, MIN(back_time)) AS lag_ms,
  COALESCE(ARG_MIN_NULL(opened_by, back_time), MIN(gone_by)) AS event_id
FROM wanted
WHERE
  (
    $since IS NULL OR effect_time >= $since
  )
  AND (
    $until IS NULL OR effect_time < $until
  )
GROUP BY
  namesrv_id,
  effect_time,
  wanted.event_id,
  what,
  name
ORDER BY
  started_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  what NULLS FIRST,
  back_time NULLS FIRST,
  name NULLS FIRST

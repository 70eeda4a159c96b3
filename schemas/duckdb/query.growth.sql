WITH steps AS (
  SELECT
    namesrv_id,
    seq,
    MIN(effect_time) AS effect_time,
    SUM(length_after - length_before) AS step
  FROM route_changes
  GROUP BY
    namesrv_id,
    seq
), totals AS (
  SELECT
    namesrv_id,
    effect_time,
    SUM(step) OVER in_time AS bytes,
    LEAD(effect_time) OVER in_time AS until
  FROM steps
  WINDOW in_time AS (PARTITION BY namesrv_id ORDER BY seq NULLS FIRST)
)
SELECT
  q.namesrv_id,
  q.day,
  q.topics,
  q.queue_rows,
  COALESCE(b.brokers, 0) AS brokers,
  COALESCE(t.route_bytes, 0) AS route_bytes,
  w.heaviest,
  w.heaviest_bytes
FROM (
  SELECT
    namesrv_id,
    day,
    COUNT(DISTINCT topic) AS topics,
    COUNT(*) AS queue_rows
  FROM topic_queue_history_slices
  GROUP BY
    namesrv_id,
    day
) AS q
LEFT JOIN (
  SELECT
    namesrv_id,
    day,
    COUNT(DISTINCT broker_addr) AS brokers
  FROM broker_live_history_slices
  GROUP BY
    namesrv_id,
    day
) AS b
  ON b.namesrv_id = q.namesrv_id AND b.day = q.day
LEFT JOIN (
  SELECT
    s.namesrv_id,
    s.day,
    ARG_MAX_NULL(r.topic, {'bytes': r.bytes, 'topic': r.topic}) AS heaviest,
    MAX(r.bytes) AS heaviest_bytes
  FROM slice_days AS s
  JOIN route_weights AS r
    ON r.namesrv_id = s.namesrv_id
    AND TRY_CAST(r.from_time AS DATE) <= s.day
    AND (
      r.to_time IS NULL OR TRY_CAST(r.to_time AS DATE) >= s.day
    )
  GROUP BY
    s.namesrv_id,
    s.day
) AS w
  ON w.namesrv_id = q.namesrv_id AND w.day = q.day
LEFT JOIN (
  SELECT
    s.namesrv_id,
    s.day,
    MAX(r.bytes) AS route_bytes
  FROM slice_days AS s
  JOIN totals AS r
    ON r.namesrv_id = s.namesrv_id
    AND TRY_CAST(r.effect_time AS DATE) <= s.day
    AND (
      r.until IS NULL OR TRY_CAST(r.until AS DATE) >= s.day
    )
  GROUP BY
    s.namesrv_id,
    s.day
) AS t
  ON t.namesrv_id = q.namesrv_id AND t.day = q.day
WHERE
  (
    $since IS NULL OR q.day >= TRY_CAST($since AS DATE)
  )
  AND (
    $until IS NULL OR q.day <= TRY_CAST($until AS DATE)
  )
ORDER BY
  q.day NULLS FIRST,
  q.namesrv_id NULLS FIRST

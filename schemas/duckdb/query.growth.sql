SELECT
  q.namesrv_id,
  q.day,
  q.topics,
  q.queue_rows,
  COALESCE(b.brokers, 0) AS brokers,
  COALESCE(w.route_bytes, 0) AS route_bytes,
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
    SUM(r.bytes) AS route_bytes,
    ARG_MAX_NULL(r.topic, {'bytes': r.bytes, 'topic': r.topic}) AS heaviest,
    MAX(r.bytes) AS heaviest_bytes
  FROM slice_days AS s
  JOIN route_weights AS r
    ON r.namesrv_id = s.namesrv_id
    AND TRY_CAST(r.from_time AS DATE) <= s.day
    AND (
      r.to_time IS NULL OR TRY_CAST(r.to_time AS DATE) > s.day
    )
  GROUP BY
    s.namesrv_id,
    s.day
) AS w
  ON w.namesrv_id = q.namesrv_id AND w.day = q.day
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

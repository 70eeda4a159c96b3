SELECT
  b.namesrv_id,
  b.broker_name,
  b.broker_addr,
  b.broker_id AS claimed_id,
  h.broker_id AS held_id,
  MIN(b.effect_time) AS first_time,
  MAX(b.effect_time) AS last_time,
  COUNT(*) AS beats,
  ARG_MIN_NULL(b.event_id, b.seq) AS event_id,
  h.opened_by
FROM heartbeats AS b
JOIN broker_addr_history AS h
  ON h.namesrv_id = b.namesrv_id
  AND h.broker_name = b.broker_name
  AND h.broker_addr = b.broker_addr
  AND h.valid_from <= b.effect_time
  AND (
    h.valid_to IS NULL OR h.valid_to > b.effect_time
  )
  AND h.broker_id <> b.broker_id
WHERE
  (
    $since IS NULL OR b.effect_time >= $since
  )
  AND (
    $until IS NULL OR b.effect_time < $until
  )
GROUP BY
  b.namesrv_id,
  b.broker_name,
  b.broker_addr,
  b.broker_id,
  h.broker_id,
  h.opened_by
ORDER BY
  first_time NULLS FIRST,
  b.namesrv_id NULLS FIRST,
  b.broker_addr NULLS FIRST

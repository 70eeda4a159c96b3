SELECT
  namesrv_id,
  broker_name,
  broker_addr,
  COUNT(*) AS registrations,
  MAX(topic_count) AS max_topics,
  MAX(body_bytes) AS max_bytes,
  ROUND(CAST(100 AS DOUBLE) * MAX(body_bytes) / NULLIF(16777216, 0), 3) AS frame_share,
  ARG_MAX_NULL(event_id, {'body_bytes': body_bytes, 'seq': seq}) AS event_id
FROM registrations
WHERE
  (
    $since IS NULL OR effect_time >= $since
  )
  AND (
    $until IS NULL OR effect_time < $until
  )
GROUP BY
  namesrv_id,
  broker_name,
  broker_addr
ORDER BY
  max_bytes DESC,
  namesrv_id NULLS FIRST,
  broker_addr NULLS FIRST

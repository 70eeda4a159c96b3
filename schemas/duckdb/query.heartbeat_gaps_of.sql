SELECT
  namesrv_id,
  broker_name,
  broker_addr,
  COUNT(*) AS beats,
  ROUND(CAST(QUANTILE_CONT(gap_ms, 0.5) AS DOUBLE), 1) AS p50_ms,
  ROUND(CAST(QUANTILE_CONT(gap_ms, 0.99) AS DOUBLE), 1) AS p99_ms,
  MAX(gap_ms) AS max_ms,
  MIN(lease_ms) AS lease_ms,
  ROUND(CAST(100 AS DOUBLE) * MAX(gap_ms) / NULLIF(MIN(lease_ms), 0), 1) AS max_share,
  ARG_MAX_NULL(event_id, {'gap_ms': gap_ms, 'event_id': event_id}) AS event_id
FROM heartbeat_gaps
WHERE
  (
    $broker IS NULL OR broker_name = $broker
  )
  AND (
    $since IS NULL OR after_time >= $since
  )
  AND (
    $until IS NULL OR after_time < $until
  )
GROUP BY
  namesrv_id,
  broker_name,
  broker_addr
ORDER BY
  max_share DESC,
  namesrv_id NULLS FIRST,
  broker_addr NULLS FIRST,
  broker_name NULLS FIRST

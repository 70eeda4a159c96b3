SELECT
  namesrv_id,
  broker_name,
  topic,
  from_time,
  to_time,
  opened_by AS event_id,
  closed_by
FROM orphaned_intervals
WHERE
  reason = 'residual'
  AND (
    $broker IS NULL OR broker_name = $broker
  )
  AND (
    $until IS NULL OR from_time < $until
  )
  AND (
    $since IS NULL OR to_time IS NULL OR to_time > $since
  )
ORDER BY
  from_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_name NULLS FIRST,
  topic NULLS FIRST

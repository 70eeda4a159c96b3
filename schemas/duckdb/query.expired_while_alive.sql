SELECT
  namesrv_id,
  broker_name,
  broker_addr,
  cause,
  removed_time,
  returned_time,
  DATE_SUB('MILLISECOND', removed_time, returned_time) AS away_ms,
  removed_by,
  returned_by
FROM expired_brokers
WHERE
  DATE_SUB('MILLISECOND', removed_time, returned_time) <= 1000 * $seconds
  AND (
    $since IS NULL OR removed_time >= $since
  )
  AND (
    $until IS NULL OR removed_time < $until
  )
ORDER BY
  removed_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_addr NULLS FIRST

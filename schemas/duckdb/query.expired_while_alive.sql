SELECT
  x.namesrv_id,
  x.broker_name,
  x.broker_addr,
  x.cause,
  x.removed_time,
  x.returned_time,
  DATE_SUB('MILLISECOND', x.removed_time, x.returned_time) AS away_ms,
  COUNT(b.event_time) AS heard,
  x.removed_by,
  x.returned_by
FROM expired_brokers AS x
LEFT JOIN (
  SELECT
    broker_addr,
    event_time
  FROM registrations
  UNION ALL
  SELECT
    broker_addr,
    event_time
  FROM heartbeats
) AS b
  ON b.broker_addr = x.broker_addr
  AND b.event_time > x.last_beat_time + INTERVAL '1' SECOND
  AND b.event_time <= x.removed_time
WHERE
  DATE_SUB('MILLISECOND', x.removed_time, x.returned_time) <= 1000 * $seconds
  AND (
    $since IS NULL OR x.removed_time >= $since
  )
  AND (
    $until IS NULL OR x.removed_time < $until
  )
GROUP BY
  x.namesrv_id,
  x.broker_name,
  x.broker_addr,
  x.cause,
  x.removed_time,
  x.returned_time,
  x.removed_by,
  x.returned_by
ORDER BY
  x.removed_time NULLS FIRST,
  x.namesrv_id NULLS FIRST,
  x.broker_addr NULLS FIRST

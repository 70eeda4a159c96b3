SELECT
  topic,
  broker_name,
  from_time,
  to_time,
  DATE_SUB('MILLISECOND', from_time, to_time) AS lasted_ms,
  ARRAY_TO_STRING(known_to, ', ') AS known_to,
  name_servers,
  opened_by AS event_id,
  closed_by
FROM namesrv_divergence
WHERE
  (
    to_time IS NULL OR DATE_SUB('MILLISECOND', from_time, to_time) > 1000 * $seconds
  )
  AND (
    $until IS NULL OR from_time < $until
  )
  AND (
    $since IS NULL OR to_time IS NULL OR to_time > $since
  )
ORDER BY
  from_time NULLS FIRST,
  topic NULLS FIRST,
  broker_name NULLS FIRST

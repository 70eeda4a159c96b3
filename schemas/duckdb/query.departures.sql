SELECT
  l.namesrv_id,
  l.broker_name,
  l.broker_addr,
  l.from_time AS came_time,
  l.to_time AS left_time,
  c.operation,
  c.outcome,
  x.last_beat_time,
  x.detection_lag_ms,
  ARRAY_LENGTH(x.topics_lost) AS topics_lost,
  l.closed_by AS event_id,
  c.source_file,
  c.source_offset
FROM broker_lives AS l
LEFT JOIN causes AS c
  ON c.namesrv_id = l.namesrv_id AND c.event_id = l.closed_by
LEFT JOIN expired_brokers AS x
  ON x.namesrv_id = l.namesrv_id
  AND x.broker_addr = l.broker_addr
  AND x.removed_by = l.closed_by
WHERE
  NOT l.closed_by IS NULL
  AND (
    $broker IS NULL OR l.broker_name = $broker
  )
  AND (
    $since IS NULL OR l.to_time >= $since
  )
  AND (
    $until IS NULL OR l.to_time < $until
  )
ORDER BY
  left_time NULLS FIRST,
  l.namesrv_id NULLS FIRST,
  l.broker_addr NULLS FIRST

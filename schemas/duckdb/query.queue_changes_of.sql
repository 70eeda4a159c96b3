SELECT
  q.namesrv_id,
  q.broker_name,
  q.effect_time,
  q.read_before,
  q.read_after,
  q.write_before,
  q.write_after,
  q.perm_before,
  q.perm_after,
  c.operation,
  q.event_id,
  c.source_file,
  c.source_offset
FROM queue_changes AS q
LEFT JOIN causes AS c
  ON c.namesrv_id = q.namesrv_id AND c.event_id = q.event_id
WHERE
  q.topic = $topic
  AND (
    $since IS NULL OR q.effect_time >= $since
  )
  AND (
    $until IS NULL OR q.effect_time < $until
  )
ORDER BY
  q.effect_time DESC,
  q.namesrv_id NULLS FIRST,
  q.broker_name NULLS FIRST

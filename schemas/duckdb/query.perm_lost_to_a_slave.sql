SELECT
  q.namesrv_id,
  q.broker_name,
  q.effect_time,
  c.broker_id,
  c.broker_addr,
  COUNT(*) AS topics,
  q.event_id,
  c.source_file,
  c.source_offset
FROM queue_changes AS q
JOIN causes AS c
  ON c.namesrv_id = q.namesrv_id
  AND c.event_id = q.event_id
  AND c.operation = 'register_broker'
  AND c.broker_id <> 0
WHERE
  q.perm_before & 2 <> 0
  AND q.perm_after & 2 = 0
  AND (
    $since IS NULL OR q.effect_time >= $since
  )
  AND (
    $until IS NULL OR q.effect_time < $until
  )
GROUP BY
  q.namesrv_id,
  q.broker_name,
  q.effect_time,
  c.broker_id,
  c.broker_addr,
  q.event_id,
  c.source_file,
  c.source_offset
ORDER BY
  q.effect_time NULLS FIRST,
  q.namesrv_id NULLS FIRST,
  q.broker_name NULLS FIRST

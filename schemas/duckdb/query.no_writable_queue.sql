SELECT
  i.namesrv_id,
  i.topic,
  i.from_time,
  i.to_time,
  c.operation,
  c.broker_name,
  c.broker_addr,
  i.opened_by AS event_id,
  c.source_file,
  c.source_offset
FROM orphaned_intervals AS i
LEFT JOIN causes AS c
  ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE
  i.reason = 'no_writable_queue'
  AND (
    $until IS NULL OR i.from_time < $until
  )
  AND (
    $since IS NULL OR i.to_time IS NULL OR i.to_time > $since
  )
  AND (
    $topic IS NULL OR i.topic = $topic
  )
ORDER BY
  i.from_time NULLS FIRST,
  i.topic NULLS FIRST,
  i.namesrv_id NULLS FIRST

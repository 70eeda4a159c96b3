SELECT
  i.namesrv_id,
  i.topic,
  i.reason,
  i.from_time,
  i.to_time,
  c.operation,
  c.broker_name,
  i.opened_by AS event_id,
  i.closed_by
FROM orphaned_intervals AS i
LEFT JOIN causes AS c
  ON c.namesrv_id = i.namesrv_id AND c.event_id = i.opened_by
WHERE
  i.reason IN ('no_broker_address', 'no_live_broker', 'no_master')
  AND (
    $until IS NULL OR i.from_time < $until
  )
  AND (
    $since IS NULL OR i.to_time IS NULL OR i.to_time > $since
  )
ORDER BY
  i.from_time NULLS FIRST,
  i.topic NULLS FIRST,
  i.namesrv_id NULLS FIRST,
  i.reason NULLS FIRST

SELECT
  h.namesrv_id,
  h.broker_name,
  h.valid_from AS from_time,
  h.valid_to AS to_time,
  MIN(i.from_time) AS unreported_since,
  h.opened_by,
  h.closed_by
FROM topic_queue_history AS h
LEFT JOIN orphaned_intervals AS i
  ON i.namesrv_id = h.namesrv_id
  AND i.topic = h.topic
  AND i.broker_name = h.broker_name
  AND i.reason = 'residual'
  AND (
    h.valid_to IS NULL OR i.from_time < h.valid_to
  )
  AND (
    i.to_time IS NULL OR i.to_time > h.valid_from
  )
WHERE
  h.topic = 'TBW102' AND (
    $broker IS NULL OR h.broker_name = $broker
  )
GROUP BY
  h.namesrv_id,
  h.broker_name,
  h.valid_from,
  h.valid_to,
  h.opened_by,
  h.closed_by
ORDER BY
  from_time NULLS FIRST,
  h.namesrv_id NULLS FIRST,
  h.broker_name NULLS FIRST

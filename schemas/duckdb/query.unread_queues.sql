SELECT
  h.namesrv_id,
  h.topic,
  h.broker_name,
  h.read_queue_nums,
  h.write_queue_nums,
  h.valid_from AS from_time,
  h.valid_to AS to_time,
  DATE_SUB('MILLISECOND', h.valid_from, h.valid_to) AS lasted_ms,
  o.operation,
  h.opened_by AS event_id
FROM topic_queue_history AS h
LEFT JOIN event_outcomes AS o
  ON o.namesrv_id = h.namesrv_id AND o.event_id = h.opened_by
WHERE
  h.read_queue_nums < h.write_queue_nums
  AND (
    $until IS NULL OR h.valid_from < $until
  )
  AND (
    $since IS NULL OR h.valid_to IS NULL OR h.valid_to > $since
  )
ORDER BY
  from_time NULLS FIRST,
  h.namesrv_id NULLS FIRST,
  h.topic NULLS FIRST,
  h.broker_name NULLS FIRST

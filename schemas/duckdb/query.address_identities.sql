SELECT
  a.namesrv_id,
  a.broker_addr,
  a.broker_name || ' ' || a.broker_id AS first,
  b.broker_name || ' ' || b.broker_id AS second,
  b.valid_from AS from_time,
  LEAST(COALESCE(a.valid_to, b.valid_to), COALESCE(b.valid_to, a.valid_to)) AS to_time,
  b.opened_by AS event_id,
  c.source_file,
  c.source_offset
FROM broker_addr_history AS a
JOIN broker_addr_history AS b
  ON b.namesrv_id = a.namesrv_id
  AND b.broker_addr = a.broker_addr
  AND b.opened_at > a.opened_at
  AND (
    b.broker_name <> a.broker_name OR b.broker_id <> a.broker_id
  )
  AND (
    a.valid_to IS NULL OR a.valid_to > b.valid_from
  )
LEFT JOIN causes AS c
  ON c.namesrv_id = b.namesrv_id AND c.event_id = b.opened_by
WHERE
  (
    $since IS NULL OR b.valid_from >= $since
  )
  AND (
    $until IS NULL OR b.valid_from < $until
  )
ORDER BY
  from_time NULLS FIRST,
  a.namesrv_id NULLS FIRST,
  a.broker_addr NULLS FIRST,
  first NULLS FIRST,
  second NULLS FIRST

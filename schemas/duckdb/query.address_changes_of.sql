SELECT
  a.namesrv_id,
  a.broker_name,
  a.broker_id,
  a.addr_before,
  a.addr_after,
  a.left_time,
  a.effect_time,
  a.gap_ms,
  COUNT(r.topic) AS topics_vanished,
  a.left_by,
  a.event_id
FROM address_changes AS a
LEFT JOIN route_changes AS r
  ON r.namesrv_id = a.namesrv_id AND r.caused_by = a.left_by AND r.change = 'vanished'
WHERE
  (
    $broker IS NULL OR a.broker_name = $broker
  )
  AND (
    $since IS NULL OR a.effect_time >= $since
  )
  AND (
    $until IS NULL OR a.effect_time < $until
  )
GROUP BY
  a.namesrv_id,
  a.broker_name,
  a.broker_id,
  a.addr_before,
  a.addr_after,
  a.left_time,
  a.effect_time,
  a.gap_ms,
  a.left_by,
  a.event_id
ORDER BY
  a.effect_time NULLS FIRST,
  a.namesrv_id NULLS FIRST,
  a.broker_name NULLS FIRST

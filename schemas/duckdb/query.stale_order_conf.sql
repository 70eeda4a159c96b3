SELECT
  i.namesrv_id,
  i.topic,
  MAX(k.config_value) AS order_conf,
  i.from_time,
  i.to_time,
  i.opened_by AS event_id,
  i.closed_by
FROM orphaned_intervals AS i
LEFT JOIN kv_config_history AS k
  ON k.namesrv_id = i.namesrv_id
  AND k.namespace = 'ORDER_TOPIC_CONFIG'
  AND k.config_key = i.topic
  AND k.valid_from <= i.from_time
  AND (
    k.valid_to IS NULL OR k.valid_to > i.from_time
  )
WHERE
  i.reason = 'stale_order_conf'
  AND (
    $until IS NULL OR i.from_time < $until
  )
  AND (
    $since IS NULL OR i.to_time IS NULL OR i.to_time > $since
  )
GROUP BY
  i.namesrv_id,
  i.topic,
  i.from_time,
  i.to_time,
  i.opened_by,
  i.closed_by
ORDER BY
  i.from_time NULLS FIRST,
  i.namesrv_id NULLS FIRST,
  i.topic NULLS FIRST

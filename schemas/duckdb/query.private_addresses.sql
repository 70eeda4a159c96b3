SELECT
  namesrv_id,
  cluster_name,
  broker_name,
  broker_id,
  broker_addr,
  valid_from AS from_time,
  valid_to AS to_time,
  opened_by
FROM broker_addr_history
WHERE
  REGEXP_MATCHES(broker_addr, '^(127\.|172\.(1[6-9]|2[0-9]|3[01])\.|localhost)')
  AND (
    $until IS NULL OR valid_from < $until
  )
  AND (
    $since IS NULL OR valid_to IS NULL OR valid_to > $since
  )
ORDER BY
  from_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_name NULLS FIRST,
  broker_id NULLS FIRST

SELECT
  namesrv_id,
  broker_name,
  broker_addr,
  minute,
  COUNT(*) AS registrations,
  SUM(is_other) AS changed,
  ARG_MIN_NULL(event_id, seq) AS event_id
FROM (
  SELECT
    x.*,
    DATE_TRUNC('MINUTE', x.effect_time) AS minute,
    CASE
      WHEN LAG(x.topic_config_digest) OVER (
        PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr
        ORDER BY x.seq NULLS FIRST
      ) IS NOT DISTINCT FROM x.topic_config_digest
      THEN 0
      ELSE 1
    END AS is_other
  FROM registrations AS x
) AS r
WHERE
  (
    $since IS NULL OR effect_time >= $since
  )
  AND (
    $until IS NULL OR effect_time < $until
  )
GROUP BY
  namesrv_id,
  broker_name,
  broker_addr,
  minute
HAVING
  COUNT(*) >= $times
ORDER BY
  registrations DESC,
  minute NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_addr NULLS FIRST

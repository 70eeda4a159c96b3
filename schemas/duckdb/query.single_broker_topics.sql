SELECT
  one.namesrv_id,
  c.cluster_name,
  c.brokers,
  one.topic,
  one.broker_name,
  one.write_queue_nums,
  first.valid_from AS since,
  MAX(CASE WHEN tbw.topic IS NULL THEN 0 ELSE 1 END) = 1 AS auto_create,
  first.opened_by AS event_id
FROM (
  SELECT
    namesrv_id,
    topic,
    MIN(broker_name) AS broker_name,
    MAX(write_queue_nums) AS write_queue_nums
  FROM TOPIC_QUEUE_TABLE_AT($t)
  WHERE
    NOT opened_by IS NULL
  GROUP BY
    namesrv_id,
    topic
  HAVING
    COUNT(DISTINCT broker_name) = 1
) AS one
JOIN (
  SELECT
    namesrv_id,
    cluster_name,
    broker_name
  FROM CLUSTER_ADDR_TABLE_AT($t)
) AS home
  ON home.namesrv_id = one.namesrv_id AND home.broker_name = one.broker_name
JOIN (
  SELECT
    namesrv_id,
    cluster_name,
    COUNT(*) AS brokers
  FROM CLUSTER_ADDR_TABLE_AT($t)
  GROUP BY
    namesrv_id,
    cluster_name
) AS c
  ON c.namesrv_id = home.namesrv_id
  AND c.cluster_name = home.cluster_name
  AND c.brokers > 1
JOIN (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    MIN(valid_from) AS valid_from,
    ARG_MIN_NULL(opened_by, opened_at) AS opened_by
  FROM topic_queue_history
  GROUP BY
    namesrv_id,
    topic,
    broker_name
) AS first
  ON first.namesrv_id = one.namesrv_id
  AND first.topic = one.topic
  AND first.broker_name = one.broker_name
LEFT JOIN topic_queue_history AS tbw
  ON tbw.namesrv_id = one.namesrv_id
  AND tbw.broker_name = one.broker_name
  AND tbw.topic = 'TBW102'
  AND tbw.valid_from <= first.valid_from
  AND (
    tbw.valid_to IS NULL OR tbw.valid_to > first.valid_from
  )
/* brokers and clusters are topics too, on one broker by nature */
WHERE
  NOT one.topic IN (one.broker_name, c.cluster_name)
GROUP BY
  one.namesrv_id,
  c.cluster_name,
  c.brokers,
  one.topic,
  one.broker_name,
  one.write_queue_nums,
  first.valid_from,
  first.opened_by
ORDER BY
  one.namesrv_id NULLS FIRST,
  c.cluster_name NULLS FIRST,
  one.topic NULLS FIRST

CREATE OR REPLACE TEMPORARY VIEW route_causes AS
SELECT
  namesrv_id,
  'queues' AS part,
  topic,
  broker_name,
  opened_by AS event_id,
  valid_from AS effect_time,
  opened_at AS position
FROM topic_queue_history
UNION ALL
SELECT
  namesrv_id,
  'queues' AS part,
  topic,
  broker_name,
  closed_by AS event_id,
  valid_to AS effect_time,
  closed_at AS position
FROM topic_queue_history
WHERE
  NOT closed_by IS NULL
UNION ALL
SELECT
  namesrv_id,
  'addresses' AS part,
  CAST(NULL AS TEXT) AS topic,
  broker_name,
  opened_by AS event_id,
  valid_from AS effect_time,
  opened_at AS position
FROM broker_addr_history
UNION ALL
SELECT
  namesrv_id,
  'addresses' AS part,
  CAST(NULL AS TEXT) AS topic,
  broker_name,
  closed_by AS event_id,
  valid_to AS effect_time,
  closed_at AS position
FROM broker_addr_history
WHERE
  NOT closed_by IS NULL
UNION ALL
SELECT
  namesrv_id,
  'order_topic_conf' AS part,
  config_key AS topic,
  CAST(NULL AS TEXT) AS broker_name,
  opened_by AS event_id,
  valid_from AS effect_time,
  opened_at AS position
FROM kv_config_history
WHERE
  namespace = 'ORDER_TOPIC_CONFIG'
UNION ALL
SELECT
  namesrv_id,
  'order_topic_conf' AS part,
  config_key AS topic,
  CAST(NULL AS TEXT) AS broker_name,
  closed_by AS event_id,
  valid_to AS effect_time,
  closed_at AS position
FROM kv_config_history
WHERE
  namespace = 'ORDER_TOPIC_CONFIG' AND NOT closed_by IS NULL

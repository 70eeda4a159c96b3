CREATE OR REPLACE TEMPORARY VIEW route_causes AS
SELECT
  r.namesrv_id,
  r.part,
  r.topic,
  r.broker_name,
  r.event.event_id,
  r.event.effect_time,
  r.event.position
FROM (
  SELECT
    namesrv_id,
    'queues' AS part,
    topic,
    broker_name,
    UNNEST(
      [
        {'event_id': opened_by, 'effect_time': valid_from, 'position': opened_at},
        {'event_id': closed_by, 'effect_time': valid_to, 'position': closed_at}
      ]
    ) AS event
  FROM topic_queue_history
  UNION ALL
  SELECT
    namesrv_id,
    'addresses' AS part,
    CAST(NULL AS TEXT) AS topic,
    broker_name,
    UNNEST(
      [
        {'event_id': opened_by, 'effect_time': valid_from, 'position': opened_at},
        {'event_id': closed_by, 'effect_time': valid_to, 'position': closed_at}
      ]
    ) AS event
  FROM broker_addr_history
  UNION ALL
  SELECT
    namesrv_id,
    'order_topic_conf' AS part,
    config_key AS topic,
    CAST(NULL AS TEXT) AS broker_name,
    UNNEST(
      [
        {'event_id': opened_by, 'effect_time': valid_from, 'position': opened_at},
        {'event_id': closed_by, 'effect_time': valid_to, 'position': closed_at}
      ]
    ) AS event
  FROM kv_config_history
  WHERE
    namespace = 'ORDER_TOPIC_CONFIG'
) AS r
WHERE
  NOT r.event.event_id IS NULL

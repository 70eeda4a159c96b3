CREATE OR REPLACE TEMPORARY VIEW route_causes
COMMENT 'Every opening and closing of a row that routes are made of: part (queues, addresses, order_topic_conf), key, event'
AS
SELECT namesrv_id, 'queues' AS part, topic, broker_name,
    opened_by AS event_id, valid_from AS effect_time, opened_at AS position
FROM topic_queue_history
UNION ALL
SELECT namesrv_id, 'queues' AS part, topic, broker_name,
    closed_by AS event_id, valid_to AS effect_time, closed_at AS position
FROM topic_queue_history
WHERE closed_by IS NOT NULL
UNION ALL
SELECT namesrv_id, 'addresses' AS part, CAST(NULL AS STRING) AS topic, broker_name,
    opened_by AS event_id, valid_from AS effect_time, opened_at AS position
FROM broker_addr_history
UNION ALL
SELECT namesrv_id, 'addresses' AS part, CAST(NULL AS STRING) AS topic, broker_name,
    closed_by AS event_id, valid_to AS effect_time, closed_at AS position
FROM broker_addr_history
WHERE closed_by IS NOT NULL
UNION ALL
SELECT namesrv_id, 'order_topic_conf' AS part, config_key AS topic, CAST(NULL AS STRING) AS broker_name,
    opened_by AS event_id, valid_from AS effect_time, opened_at AS position
FROM kv_config_history
WHERE namespace = 'ORDER_TOPIC_CONFIG'
UNION ALL
SELECT namesrv_id, 'order_topic_conf' AS part, config_key AS topic, CAST(NULL AS STRING) AS broker_name,
    closed_by AS event_id, valid_to AS effect_time, closed_at AS position
FROM kv_config_history
WHERE namespace = 'ORDER_TOPIC_CONFIG' AND closed_by IS NOT NULL

CREATE OR REPLACE TEMPORARY VIEW route_causes
COMMENT 'Every opening and closing of a row that routes are made of: part (queues, addresses, order_topic_conf), key, event'
AS
SELECT r.namesrv_id, r.part, r.topic, r.broker_name, r.event.event_id, r.event.effect_time, r.event.position
FROM (
    SELECT
        namesrv_id, 'queues' AS part, topic, broker_name,
        explode(array(
            struct(opened_by AS event_id, valid_from AS effect_time, opened_at AS position),
            struct(closed_by AS event_id, valid_to AS effect_time, closed_at AS position)
        )) AS event
    FROM topic_queue_history
    UNION ALL
    SELECT
        namesrv_id, 'addresses' AS part, CAST(NULL AS STRING) AS topic, broker_name,
        explode(array(
            struct(opened_by AS event_id, valid_from AS effect_time, opened_at AS position),
            struct(closed_by AS event_id, valid_to AS effect_time, closed_at AS position)
        )) AS event
    FROM broker_addr_history
    UNION ALL
    SELECT
        namesrv_id, 'order_topic_conf' AS part, config_key AS topic, CAST(NULL AS STRING) AS broker_name,
        explode(array(
            struct(opened_by AS event_id, valid_from AS effect_time, opened_at AS position),
            struct(closed_by AS event_id, valid_to AS effect_time, closed_at AS position)
        )) AS event
    FROM kv_config_history
    WHERE namespace = 'ORDER_TOPIC_CONFIG'
) AS r
WHERE r.event.event_id IS NOT NULL

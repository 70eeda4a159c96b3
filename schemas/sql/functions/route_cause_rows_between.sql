-- Openings and closings, after t1 and until t2, of rows that routes are made of
-- parameter t1 TIMESTAMP: First instant, exclusive
-- parameter t2 TIMESTAMP: Second instant, inclusive
-- columns: namesrv_id
-- column part STRING: queues, addresses or order_topic_conf
-- column topic STRING: Topic; NULL for addresses
-- column broker_name STRING: Broker name; NULL for order_topic_conf
-- column event_id STRING: Event that opened or closed a row
-- column effect_time TIMESTAMP: When it took effect
-- column position STRUCT<seq: BIGINT, no: INT>: Its position
SELECT r.namesrv_id, r.part, r.topic, r.broker_name, r.event.event_id, r.event.effect_time, r.event.position
FROM (
    SELECT
        s.namesrv_id, s.part, s.topic, s.broker_name,
        explode(array(
            struct(s.opened_by AS event_id, s.valid_from AS effect_time, s.opened_at AS position),
            struct(s.closed_by AS event_id, s.valid_to AS effect_time, s.closed_at AS position)
        )) AS event
    FROM (
        SELECT
            namesrv_id, 'queues' AS part, topic, broker_name, opened_by, valid_from, opened_at, closed_by, valid_to,
            closed_at
        FROM topic_queue_history
        UNION ALL
        SELECT
            namesrv_id, 'addresses', NULL, broker_name, opened_by, valid_from, opened_at, closed_by, valid_to, closed_at
        FROM broker_addr_history
        UNION ALL
        SELECT
            namesrv_id, 'order_topic_conf', config_key, NULL, opened_by, valid_from, opened_at, closed_by, valid_to,
            closed_at
        FROM kv_config_history
        WHERE namespace = 'ORDER_TOPIC_CONFIG'
    ) AS s
) AS r
WHERE r.event.event_id IS NOT NULL AND r.event.effect_time > route_cause_rows_between.t1
    AND r.event.effect_time <= route_cause_rows_between.t2

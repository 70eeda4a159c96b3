CREATE OR REPLACE TEMPORARY FUNCTION route_texts_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    topic STRING COMMENT 'Topic',
    broker_name STRING COMMENT 'Broker name',
    part STRING COMMENT 'queues, addresses or order_topic_conf',
    text STRING COMMENT 'That part as text'
)
COMMENT 'The routes of all topics at t as comparable text; route_diff compares two of them'
RETURN
    SELECT r.namesrv_id, r.topic, r.broker_name, r.text.part, r.text.text
    FROM (
        SELECT
            namesrv_id, topic, broker_name,
            explode(array(
                struct(
                    'queues' AS part,
                    concat(
                        perm, ' read ', read_queue_nums, ' write ', write_queue_nums,
                        IF(topic_sys_flag = 0, '', concat(' flag ', topic_sys_flag))
                    ) AS text
                ),
                struct(
                    'addresses' AS part,
                    coalesce(
                        array_join(transform(map_entries(broker_addrs), e -> concat(e.key, '=', e.value)), ', '),
                        'no group'
                    ) AS text
                ),
                struct('order_topic_conf' AS part, coalesce(order_topic_conf, '') AS text)
            )) AS text
        FROM routes_at(route_texts_at.t)
    ) AS r

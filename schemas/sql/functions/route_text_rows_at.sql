CREATE OR REPLACE TEMPORARY FUNCTION route_text_rows_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    topic STRING COMMENT 'Topic',
    broker_name STRING COMMENT 'Broker name',
    part STRING COMMENT 'queues, addresses or order_topic_conf',
    text STRING COMMENT 'That part as text',
    known BOOLEAN COMMENT 'FALSE: the row is only believed',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'What a difference compares two of: the routes that there were, and nothing of routes that may be missing'
RETURN
    SELECT r.namesrv_id, r.topic, r.broker_name, r.text.part, r.text.text, r.known, r.coverage
    FROM (
        SELECT
            namesrv_id, topic, broker_name, known, coverage,
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
        FROM routes_rows_at(route_text_rows_at.t)
    ) AS r

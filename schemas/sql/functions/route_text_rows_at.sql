-- What a difference compares two of: the routes that there were, and nothing of routes that may be missing
-- parameters: t
-- columns: namesrv_id, topic, broker_name
-- column part STRING: queues, addresses or order_topic_conf
-- column text STRING: That part as text
-- columns: known, coverage
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

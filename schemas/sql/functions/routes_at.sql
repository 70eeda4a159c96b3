CREATE OR REPLACE TEMPORARY FUNCTION routes_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    topic STRING COMMENT 'Topic',
    cluster_name STRING COMMENT 'Cluster of the group',
    broker_name STRING COMMENT 'Broker name',
    broker_addrs MAP<BIGINT, STRING> COMMENT 'Addresses by broker id, 0 = master; empty: a group without members',
    read_queue_nums INT COMMENT 'Queues to read from',
    write_queue_nums INT COMMENT 'Queues to write to',
    perm STRING COMMENT 'Permission as mqadmin spells it: RW-',
    perm_bits INT COMMENT 'Permission as a number: 4 read, 2 write, 1 inherit',
    topic_sys_flag INT COMMENT 'System flag bits: 1 unit, 2 unit-sub',
    order_topic_conf STRING COMMENT 'KV value of ORDER_TOPIC_CONFIG for the topic; served with orderMessageEnable only',
    queues_opened_by STRING COMMENT 'event_id since which the queues and the permission have been so'
)
COMMENT 'The routes of all topics at t on every name server, one row for each broker name, columns as mqadmin topicRoute -l'
RETURN
    SELECT
        q.namesrv_id, q.topic, g.cluster_name, q.broker_name, g.broker_addrs, q.read_queue_nums, q.write_queue_nums,
        concat(IF(q.perm & 4 <> 0, 'R', '-'), IF(q.perm & 2 <> 0, 'W', '-'), IF(q.perm & 1 <> 0, 'X', '-')),
        q.perm, q.topic_sys_flag, o.order_topic_conf, q.opened_by
    FROM topic_queue_table_at(routes_at.t) AS q
    -- queue data exist only for names that have a group
    JOIN (
        SELECT
            namesrv_id, broker_name, min(cluster_name) AS cluster_name,
            -- a group without members (broker_id NULL) gives an empty map
            map_from_entries(sort_array(
                collect_list(struct(broker_id, broker_addr)) FILTER (WHERE broker_id IS NOT NULL)
            )) AS broker_addrs
        FROM broker_addr_table_at(routes_at.t)
        GROUP BY namesrv_id, broker_name
    ) AS g ON g.namesrv_id = q.namesrv_id AND g.broker_name <=> q.broker_name
    -- one row for each topic, with or without order conf: Spark refuses outer joins with rows that depend on t
    JOIN (
        SELECT namesrv_id, topic, max(order_topic_conf) AS order_topic_conf
        FROM (
            SELECT namesrv_id, topic, CAST(NULL AS STRING) AS order_topic_conf FROM topic_queue_table_at(routes_at.t)
            UNION ALL
            SELECT namesrv_id, config_key, config_value FROM kv_config_table_at(routes_at.t)
            WHERE namespace = 'ORDER_TOPIC_CONFIG'
        )
        GROUP BY namesrv_id, topic
    ) AS o ON o.namesrv_id = q.namesrv_id AND o.topic <=> q.topic

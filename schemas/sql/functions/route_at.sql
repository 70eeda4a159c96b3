CREATE OR REPLACE TEMPORARY FUNCTION route_at(
    topic STRING COMMENT 'Topic',
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    cluster_name STRING COMMENT 'Cluster of the group',
    broker_name STRING COMMENT 'Broker name',
    broker_addrs MAP<BIGINT, STRING> COMMENT 'Addresses by broker id, 0 = master; empty: a group without members',
    read_queue_nums INT COMMENT 'Queues to read from',
    write_queue_nums INT COMMENT 'Queues to write to',
    perm STRING COMMENT 'Permission as mqadmin spells it: RW-',
    perm_bits INT COMMENT 'Permission as a number: 4 read, 2 write, 1 inherit',
    topic_sys_flag INT COMMENT 'System flag bits: 1 unit, 2 unit-sub',
    order_topic_conf STRING COMMENT 'Order configuration as clients were answered: NULL while orderMessageEnable is false',
    order_topic_conf_stored STRING COMMENT 'KV value of ORDER_TOPIC_CONFIG for the topic, whether it was served or not',
    queues_opened_by STRING COMMENT 'event_id since which the queues and the permission have been so; NULL: no route, it says that others may be missing',
    known BOOLEAN COMMENT 'FALSE: the row is only believed',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'The route of a topic at t on every name server; no row: it would have answered TOPIC_NOT_EXIST'
RETURN
    SELECT
        c.namesrv_id, c.nothing, c.nothing, CAST(NULL AS MAP<BIGINT, STRING>), CAST(c.nothing AS INT), CAST(c.nothing AS INT),
        c.nothing, CAST(c.nothing AS INT), CAST(c.nothing AS INT), c.nothing, c.nothing, c.nothing, c.known, c.coverage
    FROM coverage_at(route_at.t) AS c
    WHERE NOT c.known
    UNION ALL
    SELECT
        r.namesrv_id, r.cluster_name, r.broker_name, r.broker_addrs, r.read_queue_nums, r.write_queue_nums, r.perm,
        r.perm_bits, r.topic_sys_flag, r.order_topic_conf, r.order_topic_conf_stored, r.queues_opened_by,
        r.known, r.coverage
    FROM routes_rows_at(route_at.t) AS r
    WHERE r.topic = route_at.topic

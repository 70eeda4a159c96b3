-- The routes of all topics at t on every name server, one row for each broker name, columns as mqadmin topicRoute -l
-- parameters: t
-- columns: namesrv_id, topic
{route_columns()}
-- column queues_opened_by STRING: event_id since which the queues and the permission have been so; NULL: no route, it says that others may be missing
-- columns: known, coverage
SELECT
    c.namesrv_id, c.nothing, c.nothing, c.nothing, CAST(NULL AS MAP<BIGINT, STRING>), CAST(c.nothing AS INT),
    CAST(c.nothing AS INT), c.nothing, CAST(c.nothing AS INT), CAST(c.nothing AS INT), c.nothing, c.nothing, c.nothing,
    c.known, c.coverage
FROM coverage_at(routes_at.t) AS c
WHERE NOT c.known
UNION ALL
SELECT
    r.namesrv_id, r.topic, r.cluster_name, r.broker_name, r.broker_addrs, r.read_queue_nums, r.write_queue_nums,
    r.perm, r.perm_bits, r.topic_sys_flag, r.order_topic_conf, r.order_topic_conf_stored, r.queues_opened_by, r.known, r.coverage
FROM routes_rows_at(routes_at.t) AS r

-- The route of a topic at t on every name server; a name server without a row would have answered TOPIC_NOT_EXIST
-- parameters: topic, t
-- columns: namesrv_id
{route_columns()}
-- column queues_opened_by STRING: event_id that set the queues and the permission; NULL: not a route, the row says that routes may be missing
-- columns: known, coverage
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

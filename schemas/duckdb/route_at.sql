CREATE OR REPLACE TEMPORARY MACRO route_at(_topic, _t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  c.nothing,
  CAST(NULL AS MAP(BIGINT, TEXT)),
  CAST(c.nothing AS INT),
  CAST(c.nothing AS INT),
  c.nothing,
  CAST(c.nothing AS INT),
  CAST(c.nothing AS INT),
  c.nothing,
  c.nothing,
  c.nothing,
  c.known,
  c.coverage
FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ)) AS c
WHERE
  NOT c.known
UNION ALL
SELECT
  r.namesrv_id,
  r.cluster_name,
  r.broker_name,
  r.broker_addrs,
  r.read_queue_nums,
  r.write_queue_nums,
  r.perm,
  r.perm_bits,
  r.topic_sys_flag,
  r.order_topic_conf,
  r.order_topic_conf_stored,
  r.queues_opened_by,
  r.known,
  r.coverage
FROM ROUTES_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
WHERE
  r.topic = CAST(_topic AS TEXT)
) AS made(namesrv_id, cluster_name, broker_name, broker_addrs, read_queue_nums, write_queue_nums, perm, perm_bits, topic_sys_flag, order_topic_conf, order_topic_conf_stored, queues_opened_by, known, coverage)

CREATE OR REPLACE TEMPORARY MACRO route_at(_topic, _t) AS TABLE
SELECT * FROM (
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
  r.queues_opened_by
FROM ROUTES_AT(CAST(_t AS TIMESTAMPTZ)) AS r
WHERE
  r.topic = CAST(_topic AS TEXT)
) AS made(namesrv_id, cluster_name, broker_name, broker_addrs, read_queue_nums, write_queue_nums, perm, perm_bits, topic_sys_flag, order_topic_conf, queues_opened_by)

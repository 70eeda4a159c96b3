CREATE OR REPLACE TEMPORARY MACRO subscribe_info_at(_topic, _t) AS TABLE
SELECT * FROM (
SELECT
  q.namesrv_id,
  q.position,
  q.broker_name,
  q.queue_id,
  q.served_by,
  q.cluster_name,
  q.broker_addrs[CAST(0 AS BIGINT)],
  q.broker_addrs[LIST_MIN(MAP_KEYS(q.broker_addrs))],
  q.since,
  q.caused_by,
  q.known,
  q.coverage
FROM CLIENT_QUEUES_AT(CAST(_topic AS TEXT), CAST(_t AS TIMESTAMPTZ)) AS q
WHERE
  q.side = 'subscribe' OR q.side IS NULL
) AS made(namesrv_id, position, broker_name, queue_id, served_by, cluster_name, master_addr, pull_addr, since, caused_by, known, coverage)

CREATE OR REPLACE TEMPORARY MACRO topic_queue_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  c.nothing,
  CAST(c.nothing AS INT),
  CAST(c.nothing AS INT),
  CAST(c.nothing AS INT),
  CAST(c.nothing AS INT),
  CAST(c.nothing AS TIMESTAMPTZ),
  c.nothing,
  c.known,
  c.coverage
FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ)) AS c
WHERE
  NOT c.known
UNION ALL
SELECT
  r.namesrv_id,
  r.topic,
  r.broker_name,
  r.read_queue_nums,
  r.write_queue_nums,
  r.perm,
  r.topic_sys_flag,
  r.valid_from,
  r.opened_by,
  r.known,
  r.coverage
FROM TOPIC_QUEUE_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums, perm, topic_sys_flag, valid_from, opened_by, known, coverage)

CREATE OR REPLACE TEMPORARY MACRO cluster_addr_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  c.nothing,
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
  r.cluster_name,
  r.broker_name,
  r.valid_from,
  r.opened_by,
  r.known,
  r.coverage
FROM CLUSTER_ADDR_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, cluster_name, broker_name, valid_from, opened_by, known, coverage)

CREATE OR REPLACE TEMPORARY MACRO filter_server_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  c.nothing,
  CAST(NULL AS TEXT[]),
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
  r.broker_addr,
  r.filter_servers,
  r.valid_from,
  r.opened_by,
  r.known,
  r.coverage
FROM FILTER_SERVER_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, cluster_name, broker_addr, filter_servers, valid_from, opened_by, known, coverage)

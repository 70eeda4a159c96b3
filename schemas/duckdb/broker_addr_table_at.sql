CREATE OR REPLACE TEMPORARY MACRO broker_addr_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  CAST(c.nothing AS BIGINT),
  c.nothing,
  c.nothing,
  CAST(c.nothing AS BOOLEAN),
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
  r.broker_name,
  r.broker_id,
  r.broker_addr,
  r.cluster_name,
  r.enable_acting_master,
  r.zone_name,
  r.valid_from,
  r.opened_by,
  r.known,
  r.coverage
FROM BROKER_ADDR_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, broker_name, broker_id, broker_addr, cluster_name, enable_acting_master, zone_name, valid_from, opened_by, known, coverage)

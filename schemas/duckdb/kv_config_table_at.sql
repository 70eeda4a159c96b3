CREATE OR REPLACE TEMPORARY MACRO kv_config_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
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
  r.namespace,
  r.config_key,
  r.config_value,
  r.valid_from,
  r.opened_by,
  r.known,
  r.coverage
FROM KV_CONFIG_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, namespace, config_key, config_value, valid_from, opened_by, known, coverage)

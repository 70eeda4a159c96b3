CREATE OR REPLACE TEMPORARY MACRO route_texts_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
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
  r.topic,
  r.broker_name,
  r.part,
  r.text,
  r.known,
  r.coverage
FROM ROUTE_TEXT_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS r
) AS made(namesrv_id, topic, broker_name, part, text, known, coverage)

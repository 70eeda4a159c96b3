CREATE OR REPLACE TEMPORARY MACRO coverage_between(_t1, _t2) AS TABLE
SELECT * FROM (
SELECT
  a.namesrv_id,
  a.is_covered AND b.is_covered,
  a.known AND b.known,
  CASE
    WHEN a.known AND b.known
    THEN 'known in full'
    WHEN b.known
    THEN 'at the first instant ' || a.coverage
    WHEN a.known
    THEN 'at the second instant ' || b.coverage
    ELSE 'at the first instant ' || a.coverage || '; at the second ' || b.coverage
  END,
  a.nothing
FROM COVERAGE_AT(CAST(_t1 AS TIMESTAMPTZ)) AS a
JOIN COVERAGE_AT(CAST(_t2 AS TIMESTAMPTZ)) AS b
  ON b.namesrv_id = a.namesrv_id
) AS made(namesrv_id, is_covered, known, coverage, nothing)

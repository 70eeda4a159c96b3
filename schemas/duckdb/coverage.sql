CREATE OR REPLACE TEMPORARY VIEW coverage AS
SELECT * FROM (
SELECT
  n.c.namesrv_id,
  n.from_time,
  n.until,
  n.c.recorded,
  n.c.running,
  CASE WHEN n.c.known THEN n.from_time ELSE NULL END,
  n.c.coverage
FROM (
  SELECT
    s.from_time,
    s.until,
    UNNEST(s.said) AS c
  FROM coverage_spans AS s
) AS n
WHERE
  n.c.is_covered
) AS made(namesrv_id, from_time, to_time, recorded, running, known_from, coverage)

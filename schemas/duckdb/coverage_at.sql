CREATE OR REPLACE TEMPORARY MACRO coverage_at(_t) AS TABLE
SELECT * FROM (
SELECT
  n.c.namesrv_id,
  n.c.is_covered,
  n.c.recorded,
  n.c.known,
  n.c.known_since,
  n.c.coverage,
  n.c.nothing
FROM (
  /* in lists of one, past which no engine moves a condition: it would be looked at before the error is raised */
  SELECT
    UNNEST(s.said) AS c
  FROM coverage_spans AS s
  WHERE
    CASE
      WHEN NOT CAST(_t AS TIMESTAMPTZ) IS NULL
      AND (
        CAST(_t AS TIMESTAMPTZ) < s.from_time OR CAST(_t AS TIMESTAMPTZ) >= s.until
      )
      THEN FALSE
      WHEN s.nowhere OR CAST(_t AS TIMESTAMPTZ) IS NULL
      THEN ERROR(
        'nothing is recorded at ' || COALESCE(STRFTIME(CAST(CAST(_t AS TIMESTAMPTZ) AS TIMESTAMP), '%Y-%m-%d %H:%M:%S'), 'NULL') || ' UTC; ' || s.recorded
      )
      ELSE TRUE
    END
) AS n
) AS made(namesrv_id, is_covered, recorded, known, known_since, coverage, nothing)

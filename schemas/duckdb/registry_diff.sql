CREATE OR REPLACE TEMPORARY MACRO registry_diff(_t1, _t2) AS TABLE
SELECT * FROM (
SELECT
  n.namesrv_id,
  n.nothing,
  n.nothing,
  'not known',
  n.nothing,
  n.nothing,
  n.nothing,
  n.known,
  n.coverage
FROM COVERAGE_BETWEEN(CAST(_t1 AS TIMESTAMPTZ), CAST(_t2 AS TIMESTAMPTZ)) AS n
WHERE
  NOT n.known
UNION ALL
SELECT
  d.namesrv_id,
  d.table_name,
  d.row_key,
  CASE
    WHEN MAX(d.before) IS NULL
    THEN 'appeared'
    WHEN MAX(d.after) IS NULL
    THEN 'vanished'
    ELSE 'changed'
  END,
  MAX(d.before),
  MAX(d.after),
  COALESCE(MAX(d.opened_by), ARG_MAX_NULL(d.closed_by, d.valid_to)), /* of a row that is gone the event that ended its last interval */
  n.known,
  n.coverage
FROM (
  SELECT
    r.namesrv_id,
    r.table_name,
    r.row_key,
    CASE
      WHEN r.valid_from <= CAST(_t1 AS TIMESTAMPTZ)
      AND (
        r.valid_to IS NULL OR r.valid_to > CAST(_t1 AS TIMESTAMPTZ)
      )
      THEN r.value
      ELSE NULL
    END AS before,
    CASE
      WHEN r.valid_from <= CAST(_t2 AS TIMESTAMPTZ)
      AND (
        r.valid_to IS NULL OR r.valid_to > CAST(_t2 AS TIMESTAMPTZ)
      )
      THEN r.value
      ELSE NULL
    END AS after,
    CASE
      WHEN r.valid_from <= CAST(_t2 AS TIMESTAMPTZ)
      AND (
        r.valid_to IS NULL OR r.valid_to > CAST(_t2 AS TIMESTAMPTZ)
      )
      THEN r.opened_by
      ELSE NULL
    END AS opened_by,
    CASE WHEN r.valid_to <= CAST(_t2 AS TIMESTAMPTZ) THEN r.valid_to ELSE NULL END AS valid_to,
    CASE WHEN r.valid_to <= CAST(_t2 AS TIMESTAMPTZ) THEN r.closed_by ELSE NULL END AS closed_by
  FROM registry_rows AS r
  WHERE
    r.valid_from <= CAST(_t2 AS TIMESTAMPTZ)
    AND (
      r.valid_to IS NULL OR r.valid_to > CAST(_t1 AS TIMESTAMPTZ)
    )
) AS d
JOIN COVERAGE_BETWEEN(CAST(_t1 AS TIMESTAMPTZ), CAST(_t2 AS TIMESTAMPTZ)) AS n
  ON n.namesrv_id = d.namesrv_id AND n.is_covered
GROUP BY
  d.namesrv_id,
  d.table_name,
  d.row_key,
  n.known,
  n.coverage
HAVING
  NOT MAX(d.before) IS NOT DISTINCT FROM MAX(d.after)
) AS made(namesrv_id, table_name, row_key, change, before, after, caused_by, known, coverage)

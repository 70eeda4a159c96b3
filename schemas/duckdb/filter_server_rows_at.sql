CREATE OR REPLACE TEMPORARY MACRO filter_server_rows_at(_t) AS TABLE
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.cluster_name,
  r.broker_addr,
  r.filter_servers,
  r.valid_from,
  r.opened_by,
  c.known
  OR (
    c.recorded
    AND COALESCE(r.known_from >= c.known_since AND r.known_from <= CAST(_t AS TIMESTAMPTZ), FALSE)
  ),
  c.coverage
FROM filter_server_history_slices AS r
JOIN slice_days AS slice
  ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
JOIN COVERAGE_AT(CAST(_t AS TIMESTAMPTZ)) AS c
  ON c.namesrv_id = r.namesrv_id AND c.is_covered
/* says nothing new, but before anything is read: only files of these days are opened */
WHERE
  ARRAY_CONTAINS(DAYS_IN_FORCE(CAST(_t AS TIMESTAMPTZ)), r.day)
  AND slice.from_time <= CAST(_t AS TIMESTAMPTZ)
  AND slice.until > CAST(_t AS TIMESTAMPTZ)
  AND r.valid_from <= CAST(_t AS TIMESTAMPTZ)
  AND (
    r.valid_to IS NULL OR r.valid_to > CAST(_t AS TIMESTAMPTZ)
  )
) AS made(namesrv_id, cluster_name, broker_addr, filter_servers, valid_from, opened_by, known, coverage)

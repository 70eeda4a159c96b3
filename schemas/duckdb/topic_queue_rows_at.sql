CREATE OR REPLACE TEMPORARY MACRO topic_queue_rows_at(_t) AS TABLE
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.topic,
  r.broker_name,
  r.read_queue_nums,
  r.write_queue_nums,
  r.perm,
  r.topic_sys_flag,
  r.valid_from,
  r.opened_by,
  c.known
  OR (
    c.recorded
    AND COALESCE(r.known_from >= c.known_since AND r.known_from <= CAST(_t AS TIMESTAMPTZ), FALSE)
  ),
  c.coverage
FROM topic_queue_history_slices AS r
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
) AS made(namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums, perm, topic_sys_flag, valid_from, opened_by, known, coverage)

SELECT
  namesrv_id,
  day,
  table_name,
  run_id,
  previous_run,
  cause,
  rows_added,
  rows_removed,
  new_events,
  event_ids
FROM restatements
WHERE
  $day IS NULL OR day = CAST($day AS DATE)
ORDER BY
  day NULLS FIRST,
  namesrv_id NULLS FIRST,
  table_name NULLS FIRST,
  run_id NULLS FIRST

CREATE OR REPLACE TEMPORARY VIEW runs AS
SELECT
  r.*
FROM runs_committed AS r
WHERE
  r.finished_time <= (
    SELECT
      finished_time
    FROM known_run
  )

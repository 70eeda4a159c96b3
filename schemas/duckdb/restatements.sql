CREATE OR REPLACE TEMPORARY VIEW restatements AS
SELECT
  r.*
FROM restatements_committed AS r
SEMI JOIN (
  SELECT
    run_id
  FROM runs
  WHERE
    status = 'published'
) AS published
  ON published.run_id = r.run_id

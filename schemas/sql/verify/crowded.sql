-- Of which map of many one has gone.
SELECT {own} AS own FROM history GROUP BY own
HAVING bool_or(closed_by IS NOT NULL) AND count(DISTINCT coalesce({inner}, '')) >= $crowd

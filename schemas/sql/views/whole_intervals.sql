CREATE OR REPLACE TEMPORARY VIEW {history} (
    {declared}
)
COMMENT {grain}
AS
SELECT {columns}
FROM {history}_slices AS r
JOIN (SELECT namesrv_id, max(day) AS last_day FROM slice_days GROUP BY namesrv_id) AS s ON s.namesrv_id = r.namesrv_id
-- closed intervals are whole in the slice of their last day, open ones in the last
WHERE r.closed_by IS NOT NULL OR r.day = s.last_day

CREATE OR REPLACE TEMPORARY VIEW {history} (
    {declared}
)
COMMENT {grain}
AS
SELECT {columns}
FROM {history}_slices AS r
JOIN slice_days AS s ON s.namesrv_id = r.namesrv_id AND s.day = r.day
-- closed intervals are whole in the slice of their last day, open ones in the last
WHERE r.closed_by IS NOT NULL OR s.is_last

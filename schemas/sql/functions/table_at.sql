CREATE OR REPLACE TEMPORARY FUNCTION {function}(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    {declared},
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so'
)
COMMENT '{comment}'
RETURN
    SELECT {columns}, r.valid_from, r.opened_by
    FROM {history}_slices AS r
    JOIN (
        SELECT namesrv_id, max(day) AS day FROM slice_days WHERE day <= to_date({function}.t) GROUP BY namesrv_id
    ) AS slice ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
    -- says nothing new, but before anything is read: only files of these days are opened
    WHERE array_contains(days_in_force({function}.t), r.day)
        AND r.valid_from <= {function}.t AND (r.valid_to IS NULL OR r.valid_to > {function}.t)

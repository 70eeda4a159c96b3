CREATE OR REPLACE TEMPORARY FUNCTION {rows}(
    t TIMESTAMP COMMENT 'Instant'
)
RETURNS TABLE(
    {declared},
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so',
    known BOOLEAN COMMENT 'FALSE: the row is only believed',
    coverage STRING COMMENT 'What is known of the name server at t: in full or in part'
)
COMMENT 'The rows that a table had at an instant, and nothing of rows that may be missing'
RETURN
    SELECT
        {columns}, r.valid_from, r.opened_by,
        c.known OR (c.recorded AND coalesce(r.known_from >= c.known_since AND r.known_from <= {rows}.t, FALSE)),
        c.coverage
    FROM {history} AS r
    JOIN coverage_at({rows}.t) AS c ON c.namesrv_id = r.namesrv_id AND c.is_covered
    WHERE r.valid_from <= {rows}.t AND (r.valid_to IS NULL OR r.valid_to > {rows}.t)

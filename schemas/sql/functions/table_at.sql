CREATE OR REPLACE TEMPORARY FUNCTION {function}(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    {declared},
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so; NULL: no row of the table, it says that others may be missing, and why',
    known BOOLEAN COMMENT 'FALSE: the row is only believed',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT '{comment}'
RETURN
    SELECT c.namesrv_id, {nothing}, CAST(c.nothing AS TIMESTAMP), c.nothing, c.known, c.coverage
    FROM coverage_at({function}.t) AS c
    WHERE NOT c.known
    UNION ALL
    SELECT {columns}, r.valid_from, r.opened_by, r.known, r.coverage FROM {rows}({function}.t) AS r

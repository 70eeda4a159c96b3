-- {comment}
-- parameters: t
{declared}
-- column valid_from TIMESTAMP: Since when it has been so
-- column opened_by STRING: event_id that made it so; NULL: no row of the table, it says that others may be missing, and why
-- columns: known, coverage
SELECT c.namesrv_id, {nothing}, CAST(c.nothing AS TIMESTAMP), c.nothing, c.known, c.coverage
FROM coverage_at({function}.t) AS c
WHERE NOT c.known
UNION ALL
SELECT {columns}, r.valid_from, r.opened_by, r.known, r.coverage FROM {rows}({function}.t) AS r

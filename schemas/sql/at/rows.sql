-- The rows of the table at t, without rows for what may be missing
-- parameter t TIMESTAMP: Instant
{declared}
-- column valid_from TIMESTAMP: Since when the row is as shown
-- column opened_by STRING: event_id that made it so
-- columns: known
-- column coverage STRING: What is known of the name server at t: in full or in part
SELECT
    {columns}, r.valid_from, r.opened_by,
    c.known OR (c.recorded AND coalesce(r.known_from >= c.known_since AND r.known_from <= {rows}.t, FALSE)),
    c.coverage
FROM {history} AS r
JOIN coverage_at({rows}.t) AS c ON c.namesrv_id = r.namesrv_id AND c.is_covered
WHERE r.valid_from <= {rows}.t AND (r.valid_to IS NULL OR r.valid_to > {rows}.t)

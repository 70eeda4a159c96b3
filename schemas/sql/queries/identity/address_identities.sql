-- Which addresses were registered under two broker ids or two broker names at the same time?
-- parameters: since, until
-- columns: namesrv_id, broker_addr
-- column first: broker name and id that it had
-- column second: broker name and id that it got in addition
-- columns: from_time, to_time, event_id, source_file, source_offset
WITH pairs AS (
    SELECT
        a.namesrv_id, a.broker_addr, concat(a.broker_name, ' ', a.broker_id) AS first,
        concat(b.broker_name, ' ', b.broker_id) AS second, b.valid_from AS from_time,
        least(coalesce(a.valid_to, b.valid_to), coalesce(b.valid_to, a.valid_to)) AS to_time, b.opened_by AS event_id
    FROM broker_addr_history AS a
    JOIN broker_addr_history AS b
        ON b.namesrv_id = a.namesrv_id AND b.broker_addr = a.broker_addr AND b.opened_at > a.opened_at
        AND (b.broker_name <> a.broker_name OR b.broker_id <> a.broker_id)
        AND (a.valid_to IS NULL OR a.valid_to > b.valid_from)
)
SELECT
    b.namesrv_id, b.broker_addr, b.first, b.second, b.from_time, b.to_time, b.event_id, c.source_file, c.source_offset
FROM pairs AS b
LEFT JOIN causes AS c ON c.namesrv_id = b.namesrv_id AND c.event_id = b.event_id
WHERE {overlaps(b.from_time, b.to_time)}
ORDER BY b.from_time, b.namesrv_id, b.broker_addr, b.first, b.second

-- Which addresses were registered under two broker ids or two broker names at the same time?
-- parameters: since, until
-- columns: namesrv_id, broker_addr
-- column first: broker name and id that it had
-- column second: broker name and id that it got in addition
-- columns: from_time, to_time, event_id, source_file, source_offset
WITH members AS (
    SELECT
        struct(namesrv_id, broker_name, broker_id, broker_addr) AS what, valid_from, valid_to, opened_by, closed_by, opened_at
    FROM broker_addr_history
), stays AS (
    SELECT
        what.namesrv_id, what.broker_addr, concat(what.broker_name, ' ', what.broker_id) AS identity, from_time, to_time,
        opened_by, opened_at
    FROM {stays(members)} AS s
), pairs AS (
    SELECT
        a.namesrv_id, a.broker_addr, a.identity AS first, b.identity AS second, b.from_time,
        least(coalesce(a.to_time, b.to_time), coalesce(b.to_time, a.to_time)) AS to_time, b.opened_by AS event_id
    FROM stays AS a
    JOIN stays AS b
        ON b.namesrv_id = a.namesrv_id AND b.broker_addr = a.broker_addr AND b.opened_at > a.opened_at
        AND b.identity <> a.identity AND (a.to_time IS NULL OR a.to_time > b.from_time)
)
SELECT
    b.namesrv_id, b.broker_addr, b.first, b.second, b.from_time, b.to_time, b.event_id, c.source_file, c.source_offset
FROM pairs AS b
LEFT JOIN causes AS c ON c.namesrv_id = b.namesrv_id AND c.event_id = b.event_id
WHERE {overlaps(b.from_time, b.to_time)}
ORDER BY b.from_time, b.namesrv_id, b.broker_addr, b.first, b.second

-- Which brokers were back within some seconds of their removal, which of them had been alive, and how long were they away?
-- parameter seconds INT = 60: the broker was back within this many seconds
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column cause: scan or idle_channel
-- column removed_time: when it was removed
-- column returned_time: when it registered again
-- column away_ms: milliseconds from removed_time to returned_time
-- column heard: its heartbeats at any name server from a second after its last one here to its removal; 0: frozen or cut off
-- column removed_by: event that removed it
-- column returned_by: registration that brought it back
SELECT
    x.namesrv_id, x.broker_name, x.broker_addr, x.cause, x.removed_time, x.returned_time,
    timestampdiff(MILLISECOND, x.removed_time, x.returned_time) AS away_ms, count(b.event_time) AS heard, x.removed_by,
    x.returned_by
FROM (
    -- the table has returns of the same day only
    SELECT
        e.namesrv_id, e.broker_name, e.broker_addr, e.cause, e.last_beat_time, e.removed_time, e.removed_by,
        coalesce(e.returned_time, min(l.from_time)) AS returned_time,
        coalesce(e.returned_by, min_by(l.opened_by, l.from_time)) AS returned_by
    FROM expired_brokers AS e
    LEFT JOIN broker_lives AS l
        ON l.namesrv_id = e.namesrv_id AND l.broker_addr = e.broker_addr AND l.broker_name <=> e.broker_name
        AND l.from_time > e.removed_time
    WHERE {within(e.removed_time)}
    GROUP BY
        e.namesrv_id, e.broker_name, e.broker_addr, e.cause, e.last_beat_time, e.removed_time, e.removed_by,
        e.returned_time, e.returned_by
) AS x
LEFT JOIN (
    SELECT broker_addr, event_time FROM registrations UNION ALL SELECT broker_addr, event_time FROM heartbeats
) AS b
    ON b.broker_addr = x.broker_addr AND b.event_time > x.last_beat_time + INTERVAL 1 SECOND
    AND b.event_time <= x.removed_time
WHERE timestampdiff(MILLISECOND, x.removed_time, x.returned_time) <= CAST(1000 AS BIGINT) * :seconds
GROUP BY x.namesrv_id, x.broker_name, x.broker_addr, x.cause, x.removed_time, x.returned_time, x.removed_by, x.returned_by
ORDER BY x.removed_time, x.namesrv_id, x.broker_addr

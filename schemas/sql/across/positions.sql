-- Events whose position another event keeps, with their new positions.
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY namesrv_id, seq ORDER BY namesrv_addr <> namesrv_id, namesrv_addr, event_id) AS place,
        max(seq) OVER (PARTITION BY namesrv_id, seq // 1000) AS last_seq
    FROM events
)
SELECT event_id, last_seq + row_number() OVER (PARTITION BY namesrv_id, last_seq ORDER BY seq, namesrv_addr, event_id) AS seq
FROM ranked WHERE place > 1

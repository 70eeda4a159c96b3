-- One address in two groups, or under two ids, at the same time.
SELECT
    a.namesrv_id, 'ADDR_MULTI_IDENTITY' AS code, 'critical' AS severity, a.broker_addr AS subject,
    greatest(a.valid_from, b.valid_from) AS from_time, least(a.valid_to, b.valid_to) AS to_time,
    concat(
        a.broker_name, ' id ', a.broker_id, ' and ', b.broker_name, ' id ', b.broker_id, ' are both registered at this address'
    ) AS detail,
    array_sort(array_distinct(filter(
        array(a.opened_by, b.opened_by, IF(b.valid_to IS NULL OR a.valid_to <= b.valid_to, a.closed_by, b.closed_by)),
        id -> id IS NOT NULL
    ))) AS evidence,
    a.day
FROM {broker_addr_history} AS a
JOIN {broker_addr_history} AS b
    ON a.namesrv_id = b.namesrv_id AND a.day = b.day AND a.broker_addr = b.broker_addr
    AND struct(a.broker_name, a.broker_id) < struct(b.broker_name, b.broker_id)
    AND a.opened_at.seq < coalesce(b.closed_at.seq, 9223372036854775807)
    AND b.opened_at.seq < coalesce(a.closed_at.seq, 9223372036854775807)

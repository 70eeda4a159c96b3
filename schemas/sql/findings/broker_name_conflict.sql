-- One broker name in the sets of two clusters at the same time.
SELECT
    a.namesrv_id, 'BROKER_NAME_CONFLICT' AS code, 'critical' AS severity, a.broker_name AS subject,
    greatest(a.valid_from, b.valid_from) AS from_time, least(a.valid_to, b.valid_to) AS to_time,
    concat('in the clusters ', a.cluster_name, ' and ', b.cluster_name) AS detail,
    array_sort(array_distinct(filter(
        array(a.opened_by, b.opened_by, IF(b.valid_to IS NULL OR a.valid_to <= b.valid_to, a.closed_by, b.closed_by)),
        id -> id IS NOT NULL
    ))) AS evidence,
    a.day
FROM {cluster_addr_history} AS a
JOIN {cluster_addr_history} AS b
    ON a.namesrv_id = b.namesrv_id AND a.day = b.day AND a.broker_name = b.broker_name
    AND a.cluster_name < b.cluster_name
    AND a.opened_at.seq < coalesce(b.closed_at.seq, 9223372036854775807)
    AND b.opened_at.seq < coalesce(a.closed_at.seq, 9223372036854775807)

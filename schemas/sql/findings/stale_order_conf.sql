-- Order configuration that does not fit the route.
SELECT
    namesrv_id, 'STALE_ORDER_CONF' AS code, 'warning' AS severity, topic AS subject,
    valid_from AS from_time, valid_to AS to_time, 'the order configuration names a broker or more queues than the route has' AS detail,
    filter(array(opened_by, closed_by), id -> id IS NOT NULL) AS evidence, day
FROM {orphaned_topics}
WHERE reason = 'stale_order_conf'

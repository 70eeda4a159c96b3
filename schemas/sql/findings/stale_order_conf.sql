-- Order configuration that does not fit the route.
-- meaning: order configuration names more than the route has
-- severity: warning
-- remedy: Put an order configuration that names only existing brokers
SELECT
    'warning' AS severity, topic AS subject, valid_from AS from_time, valid_to AS to_time,
    'the order configuration names a broker or more queues than the route has' AS detail,
    [opened_by, closed_by] AS evidence, [topic] AS topic_names
FROM orphaned_topics
WHERE reason = 'stale_order_conf'

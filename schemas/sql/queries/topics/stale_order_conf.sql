-- Which order configurations name brokers or queues that are not routed?
-- parameters: since, until
-- columns: namesrv_id, topic
-- column order_conf: KV value at from_time
-- columns: from_time, to_time, event_id, closed_by
SELECT
    i.namesrv_id, i.topic, max(k.config_value) AS order_conf, i.valid_from AS from_time, i.valid_to AS to_time,
    i.opened_by AS event_id, i.closed_by
FROM orphaned_topics AS i
LEFT JOIN kv_config_history AS k
    ON k.namesrv_id = i.namesrv_id AND k.namespace = 'ORDER_TOPIC_CONFIG' AND k.config_key = i.topic
    AND k.valid_from <= i.valid_from AND (k.valid_to IS NULL OR k.valid_to > i.valid_from)
WHERE i.reason = 'stale_order_conf' AND {overlaps(i.valid_from, i.valid_to)}
GROUP BY i.namesrv_id, i.topic, i.valid_from, i.valid_to, i.opened_by, i.closed_by
ORDER BY i.valid_from, i.namesrv_id, i.topic

-- Which brokers advertise TBW102, since when, and for which is it still routed although they no longer report it?
-- parameters: broker
-- columns: namesrv_id, broker_name, from_time, to_time
-- column unreported_since: since when the broker no longer reports it; NULL = the broker reports it
-- column opened_by: event that began it
-- columns: closed_by
SELECT
    h.namesrv_id, h.broker_name, h.valid_from AS from_time, h.valid_to AS to_time, min(i.valid_from) AS unreported_since,
    h.opened_by, h.closed_by
FROM topic_queue_history AS h
LEFT JOIN orphaned_topics AS i
    ON i.namesrv_id = h.namesrv_id AND i.topic = h.topic AND i.broker_name = h.broker_name AND i.reason = 'residual'
    AND (h.valid_to IS NULL OR i.valid_from < h.valid_to) AND (i.valid_to IS NULL OR i.valid_to > h.valid_from)
WHERE h.topic = 'TBW102' AND (:broker IS NULL OR h.broker_name = :broker)
GROUP BY h.namesrv_id, h.broker_name, h.valid_from, h.valid_to, h.opened_by, h.closed_by
ORDER BY from_time, h.namesrv_id, h.broker_name

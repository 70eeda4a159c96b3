-- Which brokers advertise TBW102, since when, and for which is it still routed although they no longer report it?
-- parameters: broker
-- columns: namesrv_id, broker_name, from_time, to_time
-- column unreported_since: since when the broker no longer reports it; NULL = the broker reports it
-- column opened_by: event that began it
-- columns: closed_by
WITH advertised AS (
    SELECT struct(namesrv_id, broker_name) AS what, valid_from, valid_to, opened_by, closed_by, opened_at
    FROM topic_queue_history
    WHERE topic = 'TBW102' AND (:broker IS NULL OR broker_name = :broker)
)
SELECT
    h.what.namesrv_id, h.what.broker_name, h.from_time, h.to_time, min(i.valid_from) AS unreported_since, h.opened_by,
    h.closed_by
FROM {stays(advertised)} AS h
LEFT JOIN orphaned_topics AS i
    ON i.namesrv_id = h.what.namesrv_id AND i.topic = 'TBW102' AND i.broker_name = h.what.broker_name AND i.reason = 'residual'
    AND (h.to_time IS NULL OR i.valid_from < h.to_time) AND (i.valid_to IS NULL OR i.valid_to > h.from_time)
GROUP BY h.what.namesrv_id, h.what.broker_name, h.from_time, h.to_time, h.opened_by, h.closed_by
ORDER BY h.from_time, h.what.namesrv_id, h.what.broker_name

-- Which brokers advertise TBW102, since when, and for which is it still routed although they no longer report it?
-- parameters: broker
-- columns: namesrv_id, broker_name, from_time, to_time
-- column unreported_since: since when the broker no longer reports it; NULL = the broker reports it
-- column opened_by: event that began it
-- columns: closed_by
WITH advertised AS (
    SELECT *, sum(IF(goes_on, 0, 1)) OVER place AS stay
    FROM (
        -- a row that the event opened which closed the one before it has another permission or other queues
        SELECT *, coalesce(lag(closed_by) OVER place = opened_by, FALSE) AS goes_on
        FROM topic_queue_history
        WHERE topic = 'TBW102' AND (:broker IS NULL OR broker_name = :broker)
        WINDOW place AS (PARTITION BY namesrv_id, broker_name ORDER BY opened_at)
    )
    WINDOW place AS (PARTITION BY namesrv_id, broker_name ORDER BY opened_at)
), h AS (
    SELECT
        namesrv_id, broker_name, min(valid_from) AS from_time, IF(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
        min_by(opened_by, opened_at) AS opened_by, max_by(coalesce(closed_by, ''), opened_at) AS closed_by
    FROM advertised
    GROUP BY namesrv_id, broker_name, stay
)
SELECT
    h.namesrv_id, h.broker_name, h.from_time, h.to_time, min(i.valid_from) AS unreported_since, h.opened_by,
    nullif(h.closed_by, '') AS closed_by
FROM h
LEFT JOIN orphaned_topics AS i
    ON i.namesrv_id = h.namesrv_id AND i.topic = 'TBW102' AND i.broker_name = h.broker_name AND i.reason = 'residual'
    AND (h.to_time IS NULL OR i.valid_from < h.to_time) AND (i.valid_to IS NULL OR i.valid_to > h.from_time)
GROUP BY h.namesrv_id, h.broker_name, h.from_time, h.to_time, h.opened_by, h.closed_by
ORDER BY h.from_time, h.namesrv_id, h.broker_name

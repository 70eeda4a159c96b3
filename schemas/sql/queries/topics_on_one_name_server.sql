-- Which topics did only one of several name servers know at t?
-- group: name servers that disagree
-- parameter t TIMESTAMP: instant
-- column topic: topic
-- column namesrv_id: name server
-- column brokers: brokers that offer it
-- column since: since when it has known it
-- column event_id: event that taught it
SELECT
    r.topic, min(r.namesrv_id) AS namesrv_id, array_join(array_sort(collect_set(r.broker_name)), ', ') AS brokers,
    min(r.valid_from) AS since, min_by(r.opened_by, r.valid_from) AS event_id
FROM topic_queue_table_at(:t) AS r
GROUP BY r.topic
HAVING count(DISTINCT r.namesrv_id) = 1 AND (SELECT count(DISTINCT namesrv_id) FROM slice_days) > 1
ORDER BY r.topic

-- Which topics did only one of several name servers know at t?
-- parameter t TIMESTAMP: instant
-- columns: topic, namesrv_id
-- column brokers: brokers that offer it
-- column since: since when this name server has had it
-- column event_id: event that added it there
-- column known: FALSE = not all name servers are known in full at t, so another one may have it
SELECT
    r.topic, min(r.namesrv_id) AS namesrv_id, array_join(array_sort(collect_set(r.broker_name)), ', ') AS brokers,
    min(c.valid_from) AS since, min_by(c.opened_by, c.valid_from) AS event_id,
    (SELECT min(known) FROM coverage_at(:t)) AS known
FROM topic_queue_table_at(:t) AS r
JOIN {came(outer_entered_at)} AS c ON c.namesrv_id = r.namesrv_id AND c.topic = r.topic AND c.broker_name = r.broker_name
WHERE r.opened_by IS NOT NULL
GROUP BY r.topic
HAVING count(DISTINCT r.namesrv_id) = 1 AND (SELECT count(*) FROM coverage_at(:t) WHERE is_covered) > 1
ORDER BY r.topic

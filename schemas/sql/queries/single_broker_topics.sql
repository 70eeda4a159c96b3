-- Which topics are on one broker at t though their cluster has more, and may automatic creation have put them there?
-- group: availability
-- parameter t TIMESTAMP: instant
-- column namesrv_id: name server
-- column cluster_name: cluster
-- column brokers: brokers of the cluster
-- column topic: topic
-- column broker_name: broker name
-- column write_queue_nums: queues to write to
-- column since: since when it has been on that broker
-- column auto_create: the broker offered TBW102 when the topic came: it creates topics by itself
-- column event_id: registration that brought it
SELECT
    one.namesrv_id, c.cluster_name, c.brokers, one.topic, one.broker_name, one.write_queue_nums, first.valid_from AS since,
    max(IF(tbw.topic IS NULL, 0, 1)) = 1 AS auto_create, first.opened_by AS event_id
FROM (
    SELECT namesrv_id, topic, min(broker_name) AS broker_name, max(write_queue_nums) AS write_queue_nums
    FROM topic_queue_table_at(:t)
    WHERE opened_by IS NOT NULL
    GROUP BY namesrv_id, topic
    HAVING count(DISTINCT broker_name) = 1
) AS one
JOIN (SELECT namesrv_id, cluster_name, broker_name FROM cluster_addr_table_at(:t)) AS home
    ON home.namesrv_id = one.namesrv_id AND home.broker_name = one.broker_name
JOIN (
    SELECT namesrv_id, cluster_name, count(*) AS brokers FROM cluster_addr_table_at(:t) GROUP BY namesrv_id, cluster_name
) AS c ON c.namesrv_id = home.namesrv_id AND c.cluster_name = home.cluster_name AND c.brokers > 1
JOIN (
    SELECT namesrv_id, topic, broker_name, min(valid_from) AS valid_from, min_by(opened_by, opened_at) AS opened_by
    FROM topic_queue_history
    GROUP BY namesrv_id, topic, broker_name
) AS first
    ON first.namesrv_id = one.namesrv_id AND first.topic = one.topic AND first.broker_name = one.broker_name
LEFT JOIN topic_queue_history AS tbw
    ON tbw.namesrv_id = one.namesrv_id AND tbw.broker_name = one.broker_name AND tbw.topic = 'TBW102'
    AND tbw.valid_from <= first.valid_from AND (tbw.valid_to IS NULL OR tbw.valid_to > first.valid_from)
-- brokers and clusters are topics too, on one broker by nature
WHERE one.topic NOT IN (one.broker_name, c.cluster_name)
GROUP BY
    one.namesrv_id, c.cluster_name, c.brokers, one.topic, one.broker_name, one.write_queue_nums, first.valid_from,
    first.opened_by
ORDER BY one.namesrv_id, c.cluster_name, one.topic

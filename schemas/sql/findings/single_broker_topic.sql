-- Topics on one broker name at the end of the day though its cluster has more; RocketMQ's own topics left out.
WITH single AS (
    SELECT namesrv_id, day, topic
    FROM {topic_queue_history}
    WHERE valid_to IS NULL
    GROUP BY namesrv_id, day, topic
    HAVING count(*) = 1
),
topics AS (
    -- Not as aggregates: texts among them make Spark sort all rows.
    SELECT q.namesrv_id, q.day, q.topic, q.broker_name, q.valid_from, q.opened_by
    FROM {topic_queue_history} AS q
    JOIN single AS s ON s.namesrv_id = q.namesrv_id AND s.day = q.day AND s.topic = q.topic
    WHERE q.valid_to IS NULL
),
members AS (
    SELECT
        namesrv_id, day, cluster_name, broker_name, count(*) OVER (PARTITION BY namesrv_id, day, cluster_name) AS brokers
    FROM {cluster_addr_history}
    WHERE valid_to IS NULL
)
SELECT
    t.namesrv_id, 'SINGLE_BROKER_TOPIC' AS code, 'info' AS severity, t.topic AS subject,
    t.valid_from AS from_time, CAST(NULL AS TIMESTAMP) AS to_time,
    concat('only on ', t.broker_name, '; cluster ', min_by(m.cluster_name, m.cluster_name), ' has ',
        min_by(m.brokers, m.cluster_name), ' broker names') AS detail,
    array(t.opened_by) AS evidence, t.day
FROM topics AS t
JOIN members AS m
    ON m.namesrv_id = t.namesrv_id AND m.day = t.day AND m.broker_name = t.broker_name AND m.brokers > 1
WHERE t.topic <> t.broker_name
    AND t.topic <> m.cluster_name
    AND NOT t.topic LIKE '\%RETRY\%%' AND NOT t.topic LIKE '\%DLQ\%%'
    AND NOT lower(t.topic) LIKE 'rmq\_sys\_%' AND NOT t.topic LIKE '%\_REPLY\_TOPIC'
    AND t.topic NOT IN ('TBW102', 'SELF_TEST_TOPIC', 'BenchmarkTest', 'OFFSET_MOVED_EVENT', 'SCHEDULE_TOPIC_XXXX')
GROUP BY t.namesrv_id, t.day, t.topic, t.broker_name, t.valid_from, t.opened_by

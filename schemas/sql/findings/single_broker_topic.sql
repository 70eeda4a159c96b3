-- Topics on one broker name at the end of the day though its cluster has more, those of a cluster and day together; RocketMQ's
-- own topics left out.
-- meaning: topics on one broker name though their cluster has more
-- severity: info
-- remedy: Create the topic on the other brokers; automatic creation makes it on one only
WITH single AS (
    SELECT
        -- not the key itself: what is asked of it below would be asked of each row
        any_value(topic) AS topic, any_value(broker_name) AS broker_name, any_value(valid_from) AS valid_from,
        any_value(opened_by) AS opened_by
    FROM topic_queue_history
    WHERE valid_to IS NULL
    GROUP BY topic
    HAVING count(*) = 1
),

members AS (
    SELECT cluster_name, broker_name, count(*) OVER (PARTITION BY cluster_name) AS brokers
    FROM cluster_addr_history
    WHERE valid_to IS NULL
),

topics AS (
    SELECT t.*, min(m.cluster_name) AS cluster_name, arg_min(m.brokers, m.cluster_name) AS brokers
    FROM single AS t
    JOIN members AS m ON m.broker_name = t.broker_name AND m.brokers > 1 AND m.cluster_name <> t.topic
    WHERE t.topic <> t.broker_name
        AND NOT starts_with(t.topic, '%RETRY%') AND NOT starts_with(t.topic, '%DLQ%')
        AND NOT starts_with(lower(t.topic), 'rmq_sys_') AND NOT ends_with(t.topic, '_REPLY_TOPIC')
        AND t.topic NOT IN ('TBW102', 'SELF_TEST_TOPIC', 'BenchmarkTest', 'OFFSET_MOVED_EVENT', 'SCHEDULE_TOPIC_XXXX')
    GROUP BY ALL
)

SELECT
    'info' AS severity, cluster_name AS subject, min(valid_from) AS from_time, CAST(NULL AS TIMESTAMPTZ) AS to_time,
    count(*) || if(count(*) = 1, ' topic', ' topics') || ' on one broker name only, though the cluster has ' || max(brokers)
        || ': ' || array_to_string(list(topic || ' on ' || broker_name ORDER BY topic)[1:10], ', ') AS detail,
    list_sort(list(DISTINCT opened_by))[1:20] AS evidence, list(DISTINCT topic) AS topic_names,
    list(DISTINCT broker_name) AS broker_names
FROM topics
GROUP BY cluster_name, CAST(valid_from AS DATE)

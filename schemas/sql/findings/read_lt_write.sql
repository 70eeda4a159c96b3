-- Queues that are written to and that nobody reads, one row for a cluster and day.
-- meaning: nobody reads queues that are written to
-- severity: warning
-- remedy: Raise readQueueNums to writeQueueNums, or finish the scaling that was begun
WITH clusters AS (
    SELECT broker_name, min(cluster_name) AS cluster_name FROM cluster_addr_history GROUP BY broker_name
),

unread AS (
    FROM topic_queue_history WHERE read_queue_nums < write_queue_nums
)

SELECT
    'warning' AS severity, coalesce(c.cluster_name, q.namesrv_id) AS subject, min(q.valid_from) AS from_time,
    if(count(q.valid_to) = count(*), max(q.valid_to), NULL) AS to_time,
    count(DISTINCT q.topic) || if(count(DISTINCT q.topic) = 1, ' topic', ' topics')
        || ' with fewer queues to read from than to write to: '
        || array_to_string(
            list_sort(list(DISTINCT concat_ws('@', q.topic, q.broker_name) || ' ' || read_queue_nums || ' of ' || write_queue_nums))[1:10],
            ', '
        ) AS detail,
    list_transform(list_sort(list(DISTINCT {'at': q.valid_from, 'by': q.opened_by}))[1:20], lambda event: event.by) AS evidence,
    list(DISTINCT q.topic) AS topic_names,
    list(DISTINCT q.broker_name) AS broker_names
FROM unread AS q
LEFT JOIN clusters AS c ON c.broker_name = q.broker_name
GROUP BY coalesce(c.cluster_name, q.namesrv_id), CAST(q.valid_from AS DATE)

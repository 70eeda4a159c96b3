-- Write permission taken by WIPE_WRITE_PERM_OF_BROKER and still away at the end of the day.
SELECT
    q.namesrv_id, 'WRITE_PERM_LEFT_WIPED' AS code, 'warning' AS severity, q.broker_name AS subject,
    min(q.valid_from) AS from_time, CAST(NULL AS TIMESTAMP) AS to_time,
    concat(count(*), ' topics without write permission: ', array_join(slice(sort_array(collect_set(q.topic)), 1, 10), ', '))
        AS detail,
    array(q.opened_by) AS evidence, q.day
FROM {topic_queue_history} AS q
JOIN {wipes} AS w ON w.namesrv_id = q.namesrv_id AND w.event_id = q.opened_by
WHERE q.valid_to IS NULL AND q.perm & 2 = 0
GROUP BY q.namesrv_id, q.day, q.broker_name, q.opened_by

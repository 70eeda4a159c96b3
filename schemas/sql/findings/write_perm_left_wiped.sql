-- Write permission taken by WIPE_WRITE_PERM_OF_BROKER and still away at the end of the day.
-- meaning: write permission that was wiped and not given back
-- severity: warning
-- remedy: addWritePerm, or restart the broker, if the maintenance is over
SELECT
    'warning' AS severity, broker_name AS subject, min(valid_from) AS from_time,
    if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
    count(*) FILTER (valid_to IS NULL) || ' topics without write permission: '
        || array_to_string(list_sort(list(DISTINCT topic) FILTER (valid_to IS NULL))[1:10], ', ') AS detail,
    [opened_by] || if(count(valid_to) = count(*), list_sort(list(DISTINCT closed_by))[1:19], []) AS evidence,
    list(DISTINCT topic) AS topic_names, [broker_name] AS broker_names
FROM topic_queue_history
WHERE perm & 2 = 0
    AND opened_by IN (
        SELECT event_id FROM event_outcomes WHERE operation = 'wipe_write_perm' UNION SELECT evidence[1] FROM standing
    )
GROUP BY broker_name, opened_by
HAVING count(*) > count(valid_to) OR opened_by IN (SELECT evidence[1] FROM standing)

-- Write permission removed by WIPE_WRITE_PERM_OF_BROKER and still missing at the end of the day, except for topics that the broker
-- itself has registered without it since (`read_only`).
-- meaning: write permission was wiped and not given back
-- severity: warning
-- remedy: If the maintenance is over, run addWritePerm or restart the broker
WITH wiped AS (
    SELECT
        q.broker_name, q.topic, q.valid_from, q.opened_by, least(q.valid_to, r.seen_time) AS until,
        if(r.seen_time < q.valid_to OR q.valid_to IS NULL, r.event_id, q.closed_by) AS ended_by
    FROM topic_queue_history AS q
    LEFT JOIN read_only AS r ON r.broker_name = q.broker_name AND r.topic = q.topic AND r.seen_time >= q.valid_from
    WHERE q.perm & 2 = 0
        AND q.opened_by IN (
            SELECT event_id FROM event_outcomes WHERE operation = 'wipe_write_perm' UNION SELECT evidence[1] FROM open_findings
        )
)

SELECT
    'warning' AS severity, broker_name AS subject, min(valid_from) AS from_time,
    if(count(until) = count(*), max(until), NULL) AS to_time,
    count_if(until IS NULL) || if(count_if(until IS NULL) = 1, ' topic', ' topics') || ' without write permission: '
        || array_to_string(list_sort(list(DISTINCT topic) FILTER (until IS NULL))[1:10], ', ') AS detail,
    [opened_by] || if(count(until) = count(*), list_sort(list(DISTINCT ended_by))[1:19], []) AS evidence,
    list(DISTINCT topic) FILTER (until IS NULL OR opened_by IN (SELECT evidence[1] FROM open_findings)) AS topic_names,
    [broker_name] AS broker_names
FROM wiped
GROUP BY broker_name, opened_by
HAVING count(*) > count(until) OR opened_by IN (SELECT evidence[1] FROM open_findings)

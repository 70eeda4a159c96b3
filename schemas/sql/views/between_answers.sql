-- Changes of rows that only an answer shows, such as all changes found by polling: each happened between not_before and shown_time
-- columns: namesrv_id
-- column table_name: Table of the name server, in its own spelling
-- column row_key: Key of the row
-- column change: began or ended
-- column not_before: Last earlier answer that would show the row: it was not there yet (began), or still there (ended); NULL: no such answer
-- column shown_time: When an answer showed the change: valid_from of a row that began, valid_to of a row that ended
-- column event_id: event_id of that answer
WITH shown_rows AS (
    SELECT
        namesrv_id, 'topicQueueTable' AS table_name, concat_ws(' ', topic, broker_name) AS row_key, topic,
        concat('topic ', topic) AS asked_for, valid_from, opened_by, valid_to, closed_by
    FROM topic_queue_history
    UNION ALL
    SELECT
        namesrv_id, 'brokerAddrTable', concat_ws(' ', broker_name, CAST(broker_id AS STRING)), NULL, 'cluster', valid_from,
        opened_by, valid_to, closed_by
    FROM broker_addr_history
    UNION ALL
    SELECT
        namesrv_id, 'clusterAddrTable', concat_ws(' ', cluster_name, broker_name), NULL, 'cluster', valid_from, opened_by,
        valid_to, closed_by
    FROM cluster_addr_history
    UNION ALL
    SELECT
        namesrv_id, 'kvConfigTable', concat_ws(' ', namespace, config_key), NULL, concat('entries of ', namespace), valid_from,
        opened_by, valid_to, closed_by
    FROM kv_config_history
), edges AS (
    SELECT e.*, o.seq
    FROM (
        SELECT
            namesrv_id, table_name, row_key, topic, asked_for, 'began' AS change, valid_from AS shown_time, opened_by AS event_id
        FROM shown_rows
        UNION ALL
        SELECT namesrv_id, table_name, row_key, topic, asked_for, 'ended', valid_to, closed_by
        FROM shown_rows
        WHERE valid_to IS NOT NULL
    ) AS e
    JOIN event_outcomes AS o
        ON o.namesrv_id = e.namesrv_id AND o.day = CAST(e.shown_time AS DATE) AND o.event_id = e.event_id
        AND o.operation = 'observed_answer'
), answers AS (
    -- a route filtered by zone lacks the brokers of other zones
    SELECT
        namesrv_id, seq, event_time, code, body,
        CASE WHEN code = 105 AND scope IS NULL THEN concat('topic ', subject) WHEN code = 106 THEN 'cluster'
            WHEN code = 219 THEN concat('entries of ', subject) END AS asked_for
    FROM route_observations
    WHERE code IN (105, 106, 206, 219) AND response_code IN (0, 17, 22)
), found AS (
    SELECT
        *, last_value(asked_time) IGNORE NULLS OVER (
            PARTITION BY namesrv_id, asked_for ORDER BY seq, asked_time NULLS FIRST ROWS UNBOUNDED PRECEDING
        ) AS before
    FROM (
        SELECT namesrv_id, table_name, row_key, topic, asked_for, change, shown_time, event_id, seq, CAST(NULL AS TIMESTAMP) AS asked_time
        FROM edges
        UNION ALL
        SELECT namesrv_id, NULL, NULL, NULL, asked_for, NULL, NULL, NULL, seq, event_time
        FROM answers
        WHERE asked_for IS NOT NULL
    )
), unlisted AS (
    -- for a topic whose route was not asked for before: the last topic list without it
    SELECT f.namesrv_id, f.topic, f.event_id, max(l.event_time) AS before
    FROM found AS f
    JOIN answers AS l ON l.namesrv_id = f.namesrv_id AND l.code = 206 AND l.seq < f.seq AND NOT contains(l.body, concat('"', f.topic, '"'))
    WHERE f.change = 'began' AND f.before IS NULL AND f.topic RLIKE '^[%|A-Za-z0-9_-]+$'
    GROUP BY f.namesrv_id, f.topic, f.event_id
)
SELECT
    f.namesrv_id, f.table_name, f.row_key, f.change, coalesce(f.before, u.before), f.shown_time, f.event_id
FROM found AS f
LEFT JOIN unlisted AS u ON u.namesrv_id = f.namesrv_id AND u.topic = f.topic AND u.event_id = f.event_id
WHERE f.change IS NOT NULL

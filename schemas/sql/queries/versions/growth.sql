-- How fast do topics, queue rows and brokers grow, and how large is the route table, day by day?
-- parameters: since, until
-- columns: namesrv_id
-- column day: day
-- column topics: number of topics routed at any time that day
-- column queue_rows: rows of topicQueueTable alive in the day: topics by broker name
-- column brokers: addresses in brokerLiveTable in the day
-- column route_bytes: length of all routes as JSON, at its peak that day
-- column heaviest: topic with the longest route of the day
-- column heaviest_bytes: length of that route
WITH days AS (
    -- each published day of a name server has settings
    SELECT DISTINCT namesrv_id, day FROM namesrv_settings
), steps AS (
    SELECT namesrv_id, seq, min(effect_time) AS effect_time, sum(length_after - length_before) AS step
    FROM route_changes
    GROUP BY namesrv_id, seq
), totals AS (
    SELECT
        namesrv_id, effect_time, sum(step) OVER in_time AS bytes,
        lead(effect_time) OVER in_time AS until
    FROM steps
    WINDOW in_time AS (PARTITION BY namesrv_id ORDER BY seq)
), spans AS (
    SELECT
        namesrv_id, 'queue' AS what, topic AS name, broker_name, CAST(NULL AS BIGINT) AS bytes, valid_from AS from_time,
        valid_to AS to_time
    FROM topic_queue_history
    UNION ALL
    SELECT namesrv_id, 'broker', broker_addr, broker_name, NULL, valid_from, valid_to FROM broker_live_history
    UNION ALL
    SELECT
        namesrv_id, 'route', topic, NULL, length_after, effect_time,
        lead(effect_time) OVER (PARTITION BY namesrv_id, topic ORDER BY seq)
    FROM route_changes
    UNION ALL
    SELECT namesrv_id, 'all routes', NULL, NULL, bytes, effect_time, until FROM totals
)
SELECT
    d.namesrv_id, d.day, count(DISTINCT IF(s.what = 'queue', s.name, NULL)) AS topics,
    count(DISTINCT IF(s.what = 'queue', struct(s.name, s.broker_name), NULL)) AS queue_rows, count(DISTINCT IF(s.what = 'broker', s.name, NULL)) AS brokers,
    coalesce(max(IF(s.what = 'all routes', s.bytes, NULL)), 0) AS route_bytes,
    max_by(IF(s.what = 'route', s.name, NULL), IF(s.what = 'route', struct(s.bytes, s.name), NULL)) AS heaviest,
    max(IF(s.what = 'route', s.bytes, NULL)) AS heaviest_bytes
FROM days AS d
JOIN spans AS s
    ON s.namesrv_id = d.namesrv_id AND to_date(s.from_time) <= d.day AND (s.to_time IS NULL OR to_date(s.to_time) >= d.day)
WHERE (:since IS NULL OR d.day >= to_date(:since)) AND (:until IS NULL OR d.day <= to_date(:until))
GROUP BY d.namesrv_id, d.day
HAVING count(IF(s.what = 'queue', 1, NULL)) > 0
ORDER BY d.day, d.namesrv_id

-- How fast do topics, queue rows and brokers grow, and what does the route table weigh, day by day?
-- parameters: since, until
-- columns: namesrv_id
-- column day: day
-- column topics: topics routed when the day ended, or ever that day
-- column queue_rows: rows of topicQueueTable alive in the day
-- column brokers: addresses in brokerLiveTable in the day
-- column route_bytes: length of all routes as JSON when they weighed most that day
-- column heaviest: topic with the longest route of the day
-- column heaviest_bytes: its length
WITH days AS (
    -- a name server has settings on each day that is published
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
)
SELECT
    q.namesrv_id, q.day, q.topics, q.queue_rows, coalesce(b.brokers, 0) AS brokers, coalesce(t.route_bytes, 0) AS route_bytes,
    w.heaviest, w.heaviest_bytes
FROM (
    SELECT s.namesrv_id, s.day, count(DISTINCT r.topic) AS topics, count(*) AS queue_rows
    FROM days AS s
    JOIN topic_queue_history AS r
        ON r.namesrv_id = s.namesrv_id AND to_date(r.valid_from) <= s.day
        AND (r.valid_to IS NULL OR to_date(r.valid_to) >= s.day)
    GROUP BY s.namesrv_id, s.day
) AS q
LEFT JOIN (
    SELECT s.namesrv_id, s.day, count(DISTINCT r.broker_addr) AS brokers
    FROM days AS s
    JOIN broker_live_history AS r
        ON r.namesrv_id = s.namesrv_id AND to_date(r.valid_from) <= s.day
        AND (r.valid_to IS NULL OR to_date(r.valid_to) >= s.day)
    GROUP BY s.namesrv_id, s.day
) AS b ON b.namesrv_id = q.namesrv_id AND b.day = q.day
LEFT JOIN (
    SELECT
        s.namesrv_id, s.day, max_by(r.topic, struct(r.bytes, r.topic)) AS heaviest, max(r.bytes) AS heaviest_bytes
    FROM days AS s
    JOIN route_weights AS r
        ON r.namesrv_id = s.namesrv_id AND to_date(r.from_time) <= s.day
        AND (r.to_time IS NULL OR to_date(r.to_time) >= s.day)
    GROUP BY s.namesrv_id, s.day
) AS w ON w.namesrv_id = q.namesrv_id AND w.day = q.day
LEFT JOIN (
    SELECT s.namesrv_id, s.day, max(r.bytes) AS route_bytes
    FROM days AS s
    JOIN totals AS r
        ON r.namesrv_id = s.namesrv_id AND to_date(r.effect_time) <= s.day AND (r.until IS NULL OR to_date(r.until) >= s.day)
    GROUP BY s.namesrv_id, s.day
) AS t ON t.namesrv_id = q.namesrv_id AND t.day = q.day
WHERE (:since IS NULL OR q.day >= to_date(:since)) AND (:until IS NULL OR q.day <= to_date(:until))
ORDER BY q.day, q.namesrv_id

-- How fast do topics, queue rows and brokers grow, and what does the route table weigh, day by day?
-- group: versions, load and audit
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column day: day
-- column topics: topics routed when the day ended, or ever that day
-- column queue_rows: rows of topicQueueTable alive in the day
-- column brokers: addresses in brokerLiveTable in the day
-- column route_bytes: length of all routes as JSON at the end of the day
-- column heaviest: topic with the longest route
-- column heaviest_bytes: its length
SELECT
    q.namesrv_id, q.day, q.topics, q.queue_rows, coalesce(b.brokers, 0) AS brokers, coalesce(w.route_bytes, 0) AS route_bytes,
    w.heaviest, w.heaviest_bytes
FROM (
    SELECT namesrv_id, day, count(DISTINCT topic) AS topics, count(*) AS queue_rows
    FROM topic_queue_history_slices
    GROUP BY namesrv_id, day
) AS q
LEFT JOIN (
    SELECT namesrv_id, day, count(DISTINCT broker_addr) AS brokers FROM broker_live_history_slices GROUP BY namesrv_id, day
) AS b ON b.namesrv_id = q.namesrv_id AND b.day = q.day
LEFT JOIN (
    SELECT
        s.namesrv_id, s.day, sum(r.bytes) AS route_bytes, max_by(r.topic, struct(r.bytes, r.topic)) AS heaviest,
        max(r.bytes) AS heaviest_bytes
    FROM slice_days AS s
    JOIN route_weights AS r
        ON r.namesrv_id = s.namesrv_id AND to_date(r.from_time) <= s.day
        AND (r.to_time IS NULL OR to_date(r.to_time) > s.day)
    GROUP BY s.namesrv_id, s.day
) AS w ON w.namesrv_id = q.namesrv_id AND w.day = q.day
WHERE (:since IS NULL OR q.day >= to_date(:since)) AND (:until IS NULL OR q.day <= to_date(:until))
ORDER BY q.day, q.namesrv_id

-- Intervals in which some name servers routed a topic to a broker and others did not
-- columns: topic
-- column broker_name: Broker name that some of them routed it to
-- column from_time: Start, inclusive
-- column to_time: End, exclusive; NULL = not over when the last recorded day ended
-- column known_to: Name servers that had the route in this interval
-- column name_servers: Number of name servers, without those known only from a log
-- column opened_by: event_id that began it: the first name server got the route, or the first one lost it
-- column closed_by: event_id that ended it
WITH recorded AS (
    -- a log mostly does not show the queue data of a topic's second broker: a row missing there is no disagreement
    SELECT h.namesrv_id, h.topic, h.broker_name, h.valid_from, h.valid_to, h.opened_by, h.closed_by
    FROM topic_queue_history AS h
    LEFT ANTI JOIN namesrv_events AS l ON l.namesrv_id = h.namesrv_id AND l.kind = 'logged'
), moves AS (
    SELECT topic, broker_name, valid_from AS at, opened_by AS event_id, 1 AS step FROM recorded
    UNION ALL
    SELECT topic, broker_name, valid_to, closed_by, -1 FROM recorded WHERE valid_to IS NOT NULL
), steps AS (
    -- a row that only continues with other queues is no step
    SELECT topic, broker_name, at, min(event_id) AS event_id, sum(step) AS step
    FROM moves
    GROUP BY topic, broker_name, at
    HAVING sum(step) <> 0
), states AS (
    SELECT
        s.topic, s.broker_name, s.at AS from_time, lead(s.at) OVER in_time AS to_time, sum(s.step) OVER in_time AS known,
        s.event_id AS opened_by, lead(s.event_id) OVER in_time AS closed_by
    FROM steps AS s
    WINDOW in_time AS (PARTITION BY s.topic, s.broker_name ORDER BY s.at)
)
SELECT
    d.topic, d.broker_name, d.from_time, d.to_time, array_sort(collect_set(h.namesrv_id)), n.name_servers, d.opened_by,
    d.closed_by
FROM states AS d
CROSS JOIN (
    SELECT count(DISTINCT c.namesrv_id) AS name_servers
    FROM coverage AS c
    LEFT ANTI JOIN namesrv_events AS l ON l.namesrv_id = c.namesrv_id AND l.kind = 'logged'
) AS n
JOIN recorded AS h
    ON h.topic <=> d.topic AND h.broker_name <=> d.broker_name
    AND h.valid_from <= d.from_time AND (h.valid_to IS NULL OR h.valid_to > d.from_time)
WHERE d.known > 0 AND d.known < n.name_servers
GROUP BY d.topic, d.broker_name, d.from_time, d.to_time, n.name_servers, d.opened_by, d.closed_by

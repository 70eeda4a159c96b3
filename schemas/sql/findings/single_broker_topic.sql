-- Topics on one broker name at the end of the day although the cluster has more, one row for a cluster and day; RocketMQ's own
-- topics are left out. A topic's time begins when the topic appeared, another broker lost it, or the cluster got a second broker,
-- whichever was last; if that was before the day, with the finding that reported it. A finding without remaining topics ended when
-- the last topic that it names appeared elsewhere or left, or its cluster had one broker left.
-- meaning: topics are on one broker name although their cluster has more
-- severity: info
-- remedy: Create the topic on the other brokers; automatic creation makes it on only one
WITH single AS (
    SELECT
        -- not the key itself, or the condition on it below would be evaluated for each row
        any_value(topic) AS topic, any_value(broker_name) AS broker_name
    FROM topic_queue_history
    WHERE valid_to IS NULL
    GROUP BY topic
    HAVING count(*) = 1
),

-- a row that continues another is no beginning; the end of a row on another broker is
queues AS (
    SELECT
        s.topic, q.valid_from, q.opened_by, q.valid_to, q.closed_by, q.broker_name = s.broker_name AS is_here,
        q.opened_by IS DISTINCT FROM lag(q.closed_by) OVER (PARTITION BY q.topic, q.broker_name ORDER BY q.opened_at) AS begins
    FROM topic_queue_history AS q
    JOIN single AS s ON s.topic = q.topic
),

alone AS (
    SELECT
        topic, max(if(is_here, valid_from, valid_to)) AS alone_time,
        arg_max(if(is_here, opened_by, closed_by), if(is_here, valid_from, valid_to)) AS alone_by
    FROM queues
    WHERE begins OR NOT is_here
    GROUP BY topic
),

moves AS (
    SELECT cluster_name, opened_at.seq AS seq, valid_from AS at_time, opened_by AS event_id, 1 AS step FROM cluster_addr_history
    UNION ALL
    SELECT cluster_name, closed_at.seq, valid_to, closed_by, -1 FROM cluster_addr_history WHERE closed_by IS NOT NULL
),

sizes AS (
    SELECT
        cluster_name, seq, min(at_time) AS at_time, min(event_id) AS event_id,
        sum(sum(step)) OVER (PARTITION BY cluster_name ORDER BY seq) AS brokers
    FROM moves
    GROUP BY cluster_name, seq
),

grown AS (
    SELECT *, brokers > 1 AND lag(brokers, 1, 0) OVER (PARTITION BY cluster_name ORDER BY seq) <= 1 AS is_second FROM sizes
),

seconds AS (
    SELECT cluster_name, max(at_time) AS at_time, arg_max(event_id, seq) AS event_id FROM grown WHERE is_second GROUP BY cluster_name
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
        AND {of_users(t.topic)}
    GROUP BY ALL
),

begun AS (
    SELECT
        t.topic, t.broker_name, t.cluster_name, t.brokers, greatest(a.alone_time, c.at_time) AS since,
        if(a.alone_time >= c.at_time, a.alone_by, c.event_id) AS begun_by
    FROM topics AS t
    JOIN alone AS a ON a.topic = t.topic
    JOIN seconds AS c ON c.cluster_name = t.cluster_name
),

-- the open finding of a topic: the last one that names it, or else one that has more topics than it names
named AS (
    SELECT cluster_name, topic, max(from_time) AS from_time
    FROM (SELECT subject AS cluster_name, unnest(topic_names) AS topic, from_time FROM open_findings)
    GROUP BY cluster_name, topic
),

unnamed AS (
    SELECT DISTINCT ON (b.cluster_name, b.day) b.cluster_name, b.day, s.from_time
    FROM (SELECT DISTINCT cluster_name, CAST(since AS DATE) AS day FROM begun) AS b
    JOIN open_findings AS s ON s.subject = b.cluster_name AND s.topics > len(s.topic_names)
    ORDER BY b.cluster_name, b.day, abs(CAST(s.from_time AS DATE) - b.day), s.from_time
),

placed AS (
    SELECT b.*, if(since >= $start, since, coalesce(n.from_time, u.from_time, since)) AS from_time
    FROM begun AS b
    LEFT JOIN named AS n ON n.cluster_name = b.cluster_name AND n.topic = b.topic
    LEFT JOIN unnamed AS u ON u.cluster_name = b.cluster_name AND u.day = CAST(b.since AS DATE)
),

left_alone AS (
    SELECT s.subject, s.from_time, o.topic, any_value(o.broker_name) AS broker_name
    FROM open_findings AS s
    JOIN topic_queue_history AS o
        ON list_contains(s.topic_names, o.topic) AND o.valid_from < $start AND (o.valid_to IS NULL OR o.valid_to >= $start)
    WHERE (s.subject, CAST(s.from_time AS DATE)) NOT IN (SELECT (cluster_name, CAST(from_time AS DATE)) FROM placed)
    GROUP BY s.subject, s.from_time, o.topic
),

turns AS (
    SELECT l.subject, l.from_time, l.topic, q.valid_from AS at_time, q.opened_by AS event_id
    FROM left_alone AS l
    JOIN topic_queue_history AS q ON q.topic = l.topic AND q.broker_name <> l.broker_name
    UNION ALL
    SELECT l.subject, l.from_time, l.topic, q.valid_to, q.closed_by
    FROM left_alone AS l
    JOIN topic_queue_history AS q ON q.topic = l.topic AND q.broker_name = l.broker_name
    ANTI JOIN topic_queue_history AS n ON n.topic = q.topic AND n.broker_name = q.broker_name AND n.opened_by = q.closed_by
    UNION ALL
    SELECT l.subject, l.from_time, l.topic, c.at_time, c.event_id
    FROM left_alone AS l
    JOIN sizes AS c ON c.cluster_name = l.subject AND c.brokers <= 1
),

ends AS (
    SELECT subject, from_time, topic, min(at_time) AS at_time, arg_min(event_id, at_time) AS event_id
    FROM turns
    WHERE at_time >= $start
    GROUP BY subject, from_time, topic
)

SELECT
    'info' AS severity, cluster_name AS subject, min(from_time) AS from_time, CAST(NULL AS TIMESTAMPTZ) AS to_time,
    count(*) || if(count(*) = 1, ' topic', ' topics') || ' on one broker name only, though the cluster has ' || max(brokers)
        || ': ' || array_to_string(list(topic || ' on ' || broker_name ORDER BY topic)[1:10], ', ') AS detail,
    list_transform(list_sort(list(DISTINCT {'at': since, 'by': begun_by}))[1:20], lambda event: event.by) AS evidence,
    list(DISTINCT topic) AS topic_names,
    list(DISTINCT broker_name) AS broker_names
FROM placed
GROUP BY cluster_name, CAST(from_time AS DATE)
UNION ALL
SELECT 'info', subject, from_time, max(at_time), NULL, [arg_max(event_id, at_time)], NULL, NULL
FROM ends
GROUP BY subject, from_time

-- Which topics are on one broker at t although their cluster has more, and was automatic creation possible?
-- parameter t TIMESTAMP: instant
-- columns: namesrv_id
-- column cluster_name: cluster
-- column brokers: number of brokers in the cluster
-- columns: topic, broker_name
-- column write_queue_nums: queues to write to
-- column since: since when the topic is on that broker alone while the cluster has more
-- column auto_create: TRUE = the broker advertised TBW102 when the topic appeared: it creates topics automatically
-- column event_id: event that began this: the topic appeared, another broker lost it, or the second broker joined
WITH one AS (
    SELECT namesrv_id, topic, min(broker_name) AS broker_name, max(write_queue_nums) AS write_queue_nums
    FROM topic_queue_table_at(:t)
    WHERE opened_by IS NOT NULL
    GROUP BY namesrv_id, topic
    HAVING count(DISTINCT broker_name) = 1
), lost AS (
    SELECT o.namesrv_id, o.topic, max(h.valid_to) AS lost_time, max_by(h.closed_by, h.valid_to) AS lost_by
    FROM one AS o
    JOIN topic_queue_history AS h
        ON h.namesrv_id = o.namesrv_id AND h.topic = o.topic AND h.broker_name <> o.broker_name AND h.valid_to <= :t
    GROUP BY o.namesrv_id, o.topic
), moves AS (
    SELECT namesrv_id, cluster_name, valid_from AS at, opened_by AS event_id, 1 AS step
    FROM cluster_addr_history
    WHERE valid_from <= :t
    UNION ALL
    SELECT namesrv_id, cluster_name, valid_to, closed_by, -1 FROM cluster_addr_history WHERE valid_to <= :t
), sizes AS (
    SELECT
        m.namesrv_id, m.cluster_name, m.at, m.event_id,
        sum(m.step) OVER (PARTITION BY m.namesrv_id, m.cluster_name ORDER BY m.at ROWS UNBOUNDED PRECEDING) AS brokers
    FROM (
        SELECT namesrv_id, cluster_name, at, min(event_id) AS event_id, sum(step) AS step
        FROM moves
        GROUP BY namesrv_id, cluster_name, at
    ) AS m
), grown AS (
    SELECT
        s.*, coalesce(lag(s.brokers) OVER (PARTITION BY s.namesrv_id, s.cluster_name ORDER BY s.at), 0) AS brokers_before
    FROM sizes AS s
), home AS (
    SELECT g.namesrv_id, g.cluster_name, max(g.at) AS second_time, max_by(g.event_id, g.at) AS second_by
    FROM grown AS g
    WHERE g.brokers > 1 AND g.brokers_before <= 1
    GROUP BY g.namesrv_id, g.cluster_name
), members AS (
    SELECT namesrv_id, cluster_name, broker_name, count(*) OVER (PARTITION BY namesrv_id, cluster_name) AS brokers
    FROM cluster_addr_table_at(:t)
)
SELECT
    one.namesrv_id, m.cluster_name, m.brokers, one.topic, one.broker_name, one.write_queue_nums,
    greatest(c.valid_from, l.lost_time, h.second_time) AS since, max(IF(tbw.topic IS NULL, 0, 1)) = 1 AS auto_create,
    CASE greatest(c.valid_from, l.lost_time, h.second_time)
        WHEN c.valid_from THEN c.opened_by WHEN l.lost_time THEN l.lost_by ELSE h.second_by
    END AS event_id
FROM one
JOIN members AS m ON m.namesrv_id = one.namesrv_id AND m.broker_name = one.broker_name AND m.brokers > 1
JOIN {came(entered_at)} AS c ON c.namesrv_id = one.namesrv_id AND c.topic = one.topic AND c.broker_name = one.broker_name
LEFT JOIN lost AS l ON l.namesrv_id = one.namesrv_id AND l.topic = one.topic
LEFT JOIN home AS h ON h.namesrv_id = one.namesrv_id AND h.cluster_name = m.cluster_name
LEFT JOIN topic_queue_history AS tbw
    ON tbw.namesrv_id = one.namesrv_id AND tbw.broker_name = one.broker_name AND tbw.topic = 'TBW102'
    AND tbw.valid_from <= c.valid_from AND (tbw.valid_to IS NULL OR tbw.valid_to > c.valid_from)
-- RocketMQ's own topics, and those named like a broker or cluster, are left out: they are on one broker by design
WHERE one.topic NOT IN (one.broker_name, m.cluster_name) AND {of_users(one.topic)}
GROUP BY
    one.namesrv_id, m.cluster_name, m.brokers, one.topic, one.broker_name, one.write_queue_nums, c.valid_from, c.opened_by,
    l.lost_time, l.lost_by, h.second_time, h.second_by
ORDER BY one.namesrv_id, m.cluster_name, one.topic

-- Broker names for which name servers that share brokers had different topics for longer than $diverged_us, or at their first
-- comparison. `routed`: what each name server routed to a broker name, and since when; `served`: times in which its registry
-- existed and was known.
WITH points AS (
    SELECT broker_name, at_us FROM routed
    UNION
    SELECT b.broker_name, s.at_us
    FROM (SELECT DISTINCT broker_name FROM routed) AS b, (SELECT unnest([from_us, until_us]) AS at_us FROM served) AS s
),

routes AS (
    SELECT p.broker_name, p.at_us, n.namesrv_id, coalesce(r.topics, 0) AS topics, coalesce(r.parity, 0) AS parity
    FROM points AS p
    CROSS JOIN (SELECT DISTINCT namesrv_id FROM served) AS n
    ASOF LEFT JOIN routed AS r
        ON r.namesrv_id = n.namesrv_id AND r.broker_name = p.broker_name AND r.at_us <= p.at_us
),

states AS (
    SELECT
        t.broker_name, t.at_us, count(s.namesrv_id) > 1 AS is_compared,
        count(DISTINCT (t.topics, t.parity)) FILTER (s.namesrv_id IS NOT NULL) > 1 AS differs
    FROM routes AS t
    LEFT JOIN served AS s ON s.namesrv_id = t.namesrv_id AND s.from_us <= t.at_us AND s.until_us > t.at_us
    GROUP BY t.broker_name, t.at_us
),

steps AS (
    SELECT
        broker_name, at_us, differs, lead(at_us) OVER in_time AS until_us, count_if(NOT differs) OVER in_time AS number,
        at_us = min(at_us) FILTER (is_compared) OVER (PARTITION BY broker_name) AS is_first
    FROM states
    WINDOW in_time AS (PARTITION BY broker_name ORDER BY at_us)
)

SELECT DISTINCT broker_name FROM (
    SELECT broker_name
    FROM steps
    WHERE differs
    GROUP BY broker_name, number
    HAVING max(until_us) - min(at_us) >= $diverged_us OR bool_or(is_first)
)

-- Whether each topic of a broker name is listed by its master's registrations: the accepted ones whose topics differ from the one
-- before, and the first one behind the opening of a row. A registration with a single topic reports a change of it and says nothing
-- about other topics. Nor does one of several registrations with the same data version, into which a broker may split its topics
-- (5.x). Of registrations that say of a topic what the one before does, only those are returned that first say it of a row of
-- topic_queue_history.
WITH listed AS (
    SELECT DISTINCT topic_config_digest, unnest(topics).topic AS topic FROM configs
),

accepted AS (
    SELECT
        *,
        count(DISTINCT topic_config_digest) FILTER (topic_count > 1) OVER (
            -- registrations without a version are not parts of one another
            PARTITION BY broker_name, data_version, CASE WHEN data_version IS NULL THEN event_id END
        ) AS parts
    FROM registrations
    WHERE broker_id = 0 AND refusal IS NULL AND topic_count > 0 AND event_id NOT IN (
        SELECT event_id FROM outcomes WHERE outcome NOT IN ('applied', 'refreshed')
    )
),

opened AS (
    SELECT DISTINCT broker_name, opened_at.seq AS seq FROM held
),

whole AS (
    SELECT a.*, o.seq AS opened_seq
    FROM accepted AS a ASOF LEFT JOIN opened AS o ON o.broker_name = a.broker_name AND a.seq >= o.seq
    WHERE parts <= 1
    WINDOW in_time AS (PARTITION BY a.broker_name ORDER BY a.seq)
    QUALIFY topic_config_digest IS DISTINCT FROM lag(topic_config_digest) OVER in_time
        OR opened_seq IS DISTINCT FROM lag(opened_seq) OVER in_time
),

numbered AS (
    SELECT *, row_number() OVER (PARTITION BY broker_name ORDER BY seq) AS n FROM whole WHERE topic_count > 1
),

lists AS (
    SELECT l.topic, w.broker_name, w.n
    FROM numbered AS w
    JOIN listed AS l ON l.topic_config_digest = w.topic_config_digest
    SEMI JOIN held AS h ON h.topic = l.topic AND h.broker_name = w.broker_name
),

-- a single topic says nothing about others, and the next registration says it anew of its own
singles AS (
    SELECT l.topic, w.broker_name, w.effect_time, w.event_id, w.seq
    FROM whole AS w
    JOIN listed AS l ON l.topic_config_digest = w.topic_config_digest
    SEMI JOIN held AS h ON h.topic = l.topic AND h.broker_name = w.broker_name
    WHERE w.topic_count = 1
),

-- the first registration of the day, the first ones from the opening of a row on and behind a single topic, and those that differ
places AS (
    SELECT topic, broker_name, 1 AS n FROM held
    UNION
    SELECT s.topic, s.broker_name, w.n
    FROM (SELECT topic, broker_name, opened_at.seq AS seq FROM held UNION ALL SELECT topic, broker_name, seq FROM singles) AS s
    ASOF JOIN numbered AS w ON w.broker_name = s.broker_name AND w.seq >= s.seq
    UNION
    SELECT topic, broker_name, unnest([if(n_before = n - 1, NULL, n), if(n_next = n + 1, NULL, n + 1)])
    FROM (
        SELECT *, lag(n, 1, 0) OVER in_time AS n_before, lead(n, 1, 0) OVER in_time AS n_next
        FROM lists WINDOW in_time AS (PARTITION BY topic, broker_name ORDER BY n)
    )
)

SELECT p.topic, p.broker_name, l.topic IS NOT NULL AS listed, w.effect_time AS valid_from, w.event_id AS opened_by, w.seq
FROM places AS p
JOIN numbered AS w ON w.broker_name = p.broker_name AND w.n = p.n
LEFT JOIN lists AS l ON l.topic = p.topic AND l.broker_name = p.broker_name AND l.n = p.n
UNION ALL
SELECT topic, broker_name, TRUE, effect_time, event_id, seq FROM singles

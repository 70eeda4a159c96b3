-- How masters register topics for which the name server holds a mapping under their broker name: with a mapping, without one, or
-- missing from a table of several topics; one row at each change. `single`: seq and event_id of the registrations named in `registered`.
WITH mapped AS (
    SELECT DISTINCT topic, bname AS broker_name FROM topic_queue_mapping_history
),

listed AS (
    SELECT DISTINCT topic_config_digest, unnest(topics).topic AS topic FROM configs
),

static AS (
    SELECT DISTINCT topic_config_digest, unnest(mappings).topic AS topic FROM configs
),

kinds AS (
    SELECT
        s.broker_name, s.broker_addr, m.topic, s.seq, s.seen_us, s.version_timestamp, s.version_counter,
        CASE WHEN t.topic IS NOT NULL THEN 'static' WHEN l.topic IS NOT NULL THEN 'plain' ELSE 'missing' END AS kind
    FROM registered AS s
    JOIN mapped AS m ON m.broker_name = s.broker_name
    JOIN configs AS c ON c.topic_config_digest = s.digest
    LEFT JOIN listed AS l ON l.topic_config_digest = s.digest AND l.topic = m.topic
    LEFT JOIN static AS t ON t.topic_config_digest = s.digest AND t.topic = m.topic
    WHERE l.topic IS NOT NULL OR t.topic IS NOT NULL OR c.topic_count > 1
),

-- a broker may split its topics into several registrations of one version: a topic counts as listed if one of them lists it
whole AS (
    SELECT * FROM kinds
    QUALIFY kind = max(kind) OVER (PARTITION BY broker_addr, topic, version_timestamp, version_counter)
),

turns AS (
    SELECT * FROM whole
    QUALIFY kind IS DISTINCT FROM lag(kind) OVER (PARTITION BY broker_addr, topic ORDER BY seq)
)

SELECT
    t.broker_name, t.broker_addr, t.topic, make_timestamptz(t.seen_us) AS seen_time, t.seq, g.event_id, t.kind,
    make_timestamptz(lead(t.seen_us) OVER later) AS until_time, lead(g.event_id) OVER later AS until_by
FROM turns AS t
JOIN single AS g ON g.seq = t.seq
WINDOW later AS (PARTITION BY t.broker_addr, t.topic ORDER BY t.seq)

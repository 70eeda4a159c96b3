-- Whether each topic of a broker name is listed by its master's registrations: the accepted ones whose topics differ from the one
-- before. A registration with a single topic reports a change of it and says nothing about other topics. Nor does one of several
-- registrations with the same data version, into which a broker may split its topics (5.x).
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

whole AS (
    SELECT * FROM accepted WHERE parts <= 1
    QUALIFY topic_config_digest IS DISTINCT FROM lag(topic_config_digest) OVER (PARTITION BY broker_name ORDER BY seq)
)

SELECT
    h.topic, h.broker_name, l.topic IS NOT NULL AS listed, w.effect_time AS valid_from, w.event_id AS opened_by, w.seq
FROM (SELECT DISTINCT topic, broker_name FROM held) AS h
JOIN whole AS w ON w.broker_name = h.broker_name
LEFT JOIN listed AS l ON l.topic_config_digest = w.topic_config_digest AND l.topic = h.topic
WHERE l.topic IS NOT NULL OR w.topic_count > 1

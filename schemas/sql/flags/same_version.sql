-- What registrations tell otherwise than those before them with the same data version. One with a single topic says nothing about
-- others; nor do the topics of another batch, of a registration that was split. `said`: see versions.sql; `single`: the registrations themselves.
WITH told AS (
    SELECT topic_config_digest AS digest, topic_count, unnest(topics) AS config FROM configs
),

changed AS (
    SELECT s.seq, coalesce(b.config.topic, n.config.topic) AS topic, n.digest IS NOT NULL AND b.digest IS NOT NULL AS is_shared,
        CASE
            WHEN is_shared THEN n.config IS DISTINCT FROM b.config
            ELSE s.topics > 1 AND s.topics_before > 1
        END AS is_changed
    FROM (SELECT seq, t.* FROM said JOIN told AS t USING (digest)) AS n
    FULL JOIN (SELECT seq, t.* FROM said JOIN told AS t ON t.digest = digest_before) AS b
        ON b.seq = n.seq AND b.config.topic = n.config.topic
    JOIN (
        SELECT
            seq, (SELECT any_value(topic_count) FROM configs WHERE topic_config_digest = digest) AS topics,
            (SELECT any_value(topic_count) FROM configs WHERE topic_config_digest = digest_before) AS topics_before
        FROM said
    ) AS s ON s.seq = coalesce(n.seq, b.seq)
),

shared AS (
    SELECT seq, list_sort(list(topic) FILTER (is_changed)) AS changed FROM changed GROUP BY seq HAVING bool_or(is_shared)
),

skipped AS (
    SELECT s.seq, list_sort(list(t.config.topic)) AS skipped
    FROM said AS s
    JOIN told AS t ON t.digest = s.digest
    ANTI JOIN topic_queue_history AS h
        ON h.broker_name = s.broker_name AND h.topic = t.config.topic AND h.read_queue_nums = t.config.read_queue_nums
        AND h.write_queue_nums = t.config.write_queue_nums AND h.opened_at.seq <= s.seq
        AND (h.closed_at IS NULL OR h.closed_at.seq > s.seq)
    -- topics of slaves are never taken over
    WHERE s.broker_id = 0
    GROUP BY s.seq
)

SELECT
    s.broker_name, s.broker_addr, make_timestamptz(s.told_us) AS told_time, r.event_id,
    concat_ws('/', s.version_state, s.version_timestamp, coalesce(CAST(s.version_counter AS VARCHAR), 'null')) AS version,
    EXISTS (
        FROM data_version_history AS v
        WHERE v.broker_addr = s.broker_addr AND v.data_version.timestamp = s.version_timestamp
            AND v.data_version.counter IS NOT DISTINCT FROM s.version_counter
            AND v.day = CAST(v.valid_from AS DATE)
    ) AS is_new_version,
    coalesce(c.changed, []) AS changed, coalesce(k.skipped, []) AS skipped
FROM said AS s
JOIN single AS r ON r.seq = s.seq
LEFT JOIN shared AS c ON c.seq = s.seq
LEFT JOIN skipped AS k ON k.seq = s.seq
WHERE len(changed) > 0 OR len(skipped) > 0

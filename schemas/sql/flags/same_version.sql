-- Topics that a registration states differently from the last whole registration before it with the same data version. A
-- registration with a single topic says nothing about other topics; nor does another batch of a split registration. `registered`: see
-- versions.sql; `single`: the registrations themselves.
WITH listed AS (
    SELECT topic_config_digest AS digest, unnest(topics) AS config FROM configs
),

placed AS (
    SELECT
        s.*, c.topic_count,
        last_value(if(c.topic_count > 1, s.digest, NULL) IGNORE NULLS) OVER (
            PARTITION BY s.broker_name, s.broker_addr, s.broker_id, s.version_state, s.version_timestamp, s.version_counter
            ORDER BY s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS digest_before
    FROM registered AS s
    JOIN configs AS c ON c.topic_config_digest = s.digest
),

later AS (
    SELECT * FROM placed WHERE is_news
),

changed AS (
    SELECT
        coalesce(n.seq, b.seq) AS seq, coalesce(b.config.topic, n.config.topic) AS topic,
        n.digest IS NOT NULL AND b.digest IS NOT NULL AS is_shared,
        if(is_shared, n.config IS DISTINCT FROM b.config, coalesce(n.topic_count, b.topic_count) > 1) AS is_changed
    FROM (SELECT l.seq, l.topic_count, t.* FROM later AS l JOIN listed AS t ON t.digest = l.digest) AS n
    FULL JOIN (SELECT l.seq, l.topic_count, t.* FROM later AS l JOIN listed AS t ON t.digest = l.digest_before) AS b
        ON b.seq = n.seq AND b.config.topic = n.config.topic
),

shared AS (
    SELECT seq, list_sort(list(topic) FILTER (is_changed)) AS changed FROM changed GROUP BY seq HAVING bool_or(is_shared)
),

skipped AS (
    SELECT s.seq, list_sort(list(t.config.topic)) AS skipped
    FROM later AS s
    JOIN listed AS t ON t.digest = s.digest
    ANTI JOIN topic_queue_history AS h
        ON h.broker_name = s.broker_name AND h.topic = t.config.topic AND h.read_queue_nums = t.config.read_queue_nums
        AND h.write_queue_nums = t.config.write_queue_nums AND h.opened_at.seq <= s.seq
        AND (h.closed_at IS NULL OR h.closed_at.seq > s.seq)
    -- a name server never takes topics over from slaves
    WHERE s.broker_id = 0
    GROUP BY s.seq
)

SELECT
    s.broker_name, s.broker_addr, make_timestamptz(s.seen_us) AS seen_time, r.event_id,
    concat_ws('/', s.version_state, s.version_timestamp, coalesce(CAST(s.version_counter AS VARCHAR), 'null')) AS version,
    s.is_new_version,
    coalesce(c.changed, []) AS changed, coalesce(k.skipped, []) AS skipped
FROM later AS s
JOIN single AS r ON r.seq = s.seq
LEFT JOIN shared AS c ON c.seq = s.seq
LEFT JOIN skipped AS k ON k.seq = s.seq
WHERE len(changed) > 0 OR len(skipped) > 0

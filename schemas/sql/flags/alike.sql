-- For each topic the first one with equal rows: the same broker names and values, opened and closed by the same events, so that one
-- sweep serves them all. If a row opened and closed within one event, the order in that event counts, and the topic is like no other.
WITH hashed AS (
    SELECT
        topic,
        hash(
            broker_name, read_queue_nums, write_queue_nums, perm, topic_sys_flag, opened_at.seq, opened_by, closed_at.seq,
            closed_by
        ) AS row_hash,
        opened_at.seq IS NOT DISTINCT FROM closed_at.seq AS is_within
    FROM held
),

known_by AS (
    SELECT
        topic, count(*) AS queue_rows, sum(row_hash) AS total, bit_xor(row_hash) AS parity,
        CASE WHEN bool_or(is_within) OR bool_or(topic IN (SELECT topic FROM single)) THEN topic END AS alone
    FROM hashed
    GROUP BY topic
)

SELECT topic, min(topic) OVER (PARTITION BY queue_rows, total, parity, alone, topic IS NULL) AS alike, queue_rows
FROM known_by
ORDER BY alike, topic

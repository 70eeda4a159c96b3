-- Data versions with which a broker registered other topics than it had told with them before: each by the first registration.
WITH said AS (
    SELECT
        broker_name, broker_addr, broker_id, version_state, version_timestamp, version_counter, topic_config_digest AS digest,
        min(first_seq) AS seq, min(first_us) AS told_us
    FROM hours
    WHERE kind = 'registrations' AND refusal IS NULL AND topic_config_digest IS NOT NULL AND version_timestamp IS NOT NULL
    GROUP BY ALL
)

SELECT
    *, lag(digest) OVER (
        PARTITION BY broker_name, broker_addr, broker_id, version_state, version_timestamp, version_counter ORDER BY seq
    ) AS digest_before
FROM said
QUALIFY digest_before IS NOT NULL

-- Data versions with which a broker registered several topic tables, each table by its first registration. `is_news`: the table came
-- later than another one, and not only because a day began.
-- A table registered with an older version at the beginning of a day is a repetition: the broker registered it the day before, too.
WITH registered AS (
    SELECT
        broker_name, broker_addr, broker_id, version_state, version_timestamp, version_counter, topic_config_digest AS digest,
        min(first_seq) AS seq, min(first_us) AS seen_us
    FROM hours
    WHERE kind = 'registrations' AND refusal IS NULL AND topic_config_digest IS NOT NULL AND version_timestamp IS NOT NULL
    GROUP BY ALL
),

new_versions AS (
    SELECT DISTINCT
        broker_addr, data_version.timestamp AS version_timestamp, coalesce(data_version.counter, -1) AS counter,
        TRUE AS is_new_version
    FROM data_version_history
    WHERE valid_from >= $start
),

numbered AS (
    SELECT
        s.*, coalesce(v.is_new_version, FALSE) AS is_new_version, row_number() OVER in_version AS place,
        count(*) OVER (
            PARTITION BY s.broker_name, s.broker_addr, s.broker_id, s.version_state, s.version_timestamp, s.version_counter
        ) AS tables
    FROM registered AS s
    LEFT JOIN new_versions AS v
        ON v.broker_addr = s.broker_addr AND v.version_timestamp = s.version_timestamp
        AND v.counter = coalesce(s.version_counter, -1)
    WINDOW in_version AS (
        PARTITION BY s.broker_name, s.broker_addr, s.broker_id, s.version_state, s.version_timestamp, s.version_counter
        ORDER BY s.seq
    )
),

news AS (
    SELECT *, place > 1 AND (is_new_version OR seen_us > epoch_us($start) + 120000000) AS is_news FROM numbered WHERE tables > 1
)

SELECT * FROM news
QUALIFY bool_or(is_news) OVER (
    PARTITION BY broker_name, broker_addr, broker_id, version_state, version_timestamp, version_counter
)

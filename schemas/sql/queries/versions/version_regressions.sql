-- Where did a data version go backwards, or stay equal while the topics in the registration changed?
-- parameters: broker, since, until
-- columns: namesrv_id
-- column what: went back, or same version, other topics
-- columns: broker_name, broker_addr
-- column version_before: state version/timestamp/counter before
-- column version_after: state version/timestamp/counter after
-- column effect_time: when it happened first
-- column times: how often it happened
-- column event_id: event of the first time
WITH registered AS (
    -- a registration with a single topic says nothing about others
    SELECT
        namesrv_id, broker_name, broker_addr, broker_id, data_version, topic_config_digest, min(seq) AS seq,
        min(effect_time) AS effect_time, count(*) AS times, min_by(event_id, seq) AS event_id
    FROM registrations
    WHERE refusal IS NULL AND topic_count > 1 AND data_version IS NOT NULL
    GROUP BY namesrv_id, broker_name, broker_addr, broker_id, data_version, topic_config_digest
), pairs AS (
    SELECT b.*, a.topic_config_digest AS digest_before
    FROM registered AS a
    JOIN registered AS b
        ON b.namesrv_id = a.namesrv_id AND b.broker_name = a.broker_name AND b.broker_addr = a.broker_addr
        AND b.broker_id = a.broker_id AND b.data_version = a.data_version AND b.seq > a.seq
), listed AS (
    SELECT topic_config_digest, explode(topics) AS config FROM topic_configs
), changed AS (
    -- tables without a common topic are parts of one registration that was split
    SELECT
        p.namesrv_id, p.broker_name, p.broker_addr, p.data_version, p.effect_time, p.times, p.event_id
    FROM pairs AS p
    JOIN listed AS later ON later.topic_config_digest = p.topic_config_digest
    JOIN listed AS earlier
        ON earlier.topic_config_digest = p.digest_before AND earlier.config.topic = later.config.topic
    GROUP BY p.namesrv_id, p.broker_name, p.broker_addr, p.data_version, p.effect_time, p.times, p.event_id
)
SELECT
    namesrv_id, what, broker_name, broker_addr,
    concat_ws('/', CAST(before.state_version AS STRING), CAST(before.timestamp AS STRING), CAST(before.counter AS STRING))
        AS version_before,
    concat_ws('/', CAST(after.state_version AS STRING), CAST(after.timestamp AS STRING), CAST(after.counter AS STRING))
        AS version_after,
    effect_time, times, event_id
FROM (
    SELECT
        namesrv_id, 'went back' AS what, broker_name, broker_addr, previous AS before, data_version AS after,
        min(valid_from) AS effect_time, count(*) AS times, min_by(opened_by, opened_at) AS event_id
    FROM data_version_history
    WHERE is_regression
    GROUP BY namesrv_id, broker_name, broker_addr, previous, data_version
    UNION ALL
    SELECT
        namesrv_id, 'same version, other topics', broker_name, broker_addr, data_version, data_version, effect_time, times,
        event_id
    FROM changed
) AS found
WHERE (:broker IS NULL OR broker_name = :broker) AND {within(effect_time)}
ORDER BY effect_time, namesrv_id, broker_addr, what

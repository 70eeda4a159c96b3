-- Where did a data version go backwards, or stay equal while the topics in the registration changed?
-- group: versions, load and audit
-- parameter broker STRING = NULL: only this broker name
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column what: went back, or same version, other topics
-- column broker_name: broker name
-- column broker_addr: broker address
-- column version_before: state version/timestamp/counter before
-- column version_after: after
-- column effect_time: when
-- column event_id: event that did it
SELECT namesrv_id, what, broker_name, broker_addr, version_before, version_after, effect_time, event_id
FROM (
    SELECT
        namesrv_id, 'went back' AS what, broker_name, broker_addr,
        concat_ws(
            '/', CAST(previous.state_version AS STRING), CAST(previous.timestamp AS STRING), CAST(previous.counter AS STRING)) AS version_before,
        concat_ws(
            '/', CAST(data_version.state_version AS STRING), CAST(data_version.timestamp AS STRING), CAST(data_version.counter AS STRING)) AS version_after, valid_from AS effect_time, opened_by AS event_id
    FROM data_version_history
    WHERE is_regression
    UNION ALL
    SELECT
        r.namesrv_id, 'same version, other topics', r.broker_name, r.broker_addr, concat_ws(
            '/', CAST(r.before.state_version AS STRING), CAST(r.before.timestamp AS STRING), CAST(r.before.counter AS STRING)),
        concat_ws(
            '/', CAST(r.data_version.state_version AS STRING), CAST(r.data_version.timestamp AS STRING), CAST(r.data_version.counter AS STRING)), r.effect_time, r.event_id
    FROM (
        SELECT
            x.*, lag(x.data_version) OVER told AS before, lag(x.topic_config_digest) OVER told AS digest_before
        FROM registrations AS x
        WHERE x.refusal IS NULL
        WINDOW told AS (PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr ORDER BY x.seq)
    ) AS r
    WHERE r.before = r.data_version AND r.digest_before <> r.topic_config_digest
) AS found
WHERE (:broker IS NULL OR broker_name = :broker) AND (:since IS NULL OR effect_time >= :since)
    AND (:until IS NULL OR effect_time < :until)
ORDER BY effect_time, namesrv_id, broker_addr, what

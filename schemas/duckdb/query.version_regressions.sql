SELECT
  namesrv_id,
  what,
  broker_name,
  broker_addr,
  version_before,
  version_after,
  effect_time,
  event_id
FROM (
  SELECT
    namesrv_id,
    'went back' AS what,
    broker_name,
    broker_addr,
    CONCAT_WS(
      '/',
      CAST(previous.state_version AS TEXT),
      CAST(previous.timestamp AS TEXT),
      CAST(previous.counter AS TEXT)
    ) AS version_before,
    CONCAT_WS(
      '/',
      CAST(data_version.state_version AS TEXT),
      CAST(data_version.timestamp AS TEXT),
      CAST(data_version.counter AS TEXT)
    ) AS version_after,
    valid_from AS effect_time,
    opened_by AS event_id
  FROM data_version_history
  WHERE
    is_regression
  UNION ALL
  SELECT
    r.namesrv_id,
    'same version, other topics',
    r.broker_name,
    r.broker_addr,
    CONCAT_WS(
      '/',
      CAST(r.before.state_version AS TEXT),
      CAST(r.before.timestamp AS TEXT),
      CAST(r.before.counter AS TEXT)
    ),
    CONCAT_WS(
      '/',
      CAST(r.data_version.state_version AS TEXT),
      CAST(r.data_version.timestamp AS TEXT),
      CAST(r.data_version.counter AS TEXT)
    ),
    r.effect_time,
    r.event_id
  FROM (
    SELECT
      x.*,
      LAG(x.data_version) OVER told AS before,
      LAG(x.topic_config_digest) OVER told AS digest_before
    FROM registrations AS x
    WHERE
      x.refusal IS NULL
    WINDOW told AS (
      PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr
      ORDER BY x.seq NULLS FIRST
    )
  ) AS r
  WHERE
    r.before = r.data_version AND r.digest_before <> r.topic_config_digest
) AS found
WHERE
  (
    $broker IS NULL OR broker_name = $broker
  )
  AND (
    $since IS NULL OR effect_time >= $since
  )
  AND (
    $until IS NULL OR effect_time < $until
  )
ORDER BY
  effect_time NULLS FIRST,
  namesrv_id NULLS FIRST,
  broker_addr NULLS FIRST,
  what NULLS FIRST

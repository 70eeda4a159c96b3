WITH skipped AS (
  SELECT
    r.*,
    COALESCE(o.outcome, 'refreshed') AS outcome
  FROM (
    SELECT
      x.*,
      LAG(x.data_version) OVER told AS version_before,
      LAG(x.topic_config_digest) OVER told AS digest_before
    FROM registrations AS x
    WHERE
      x.refusal IS NULL
    WINDOW told AS (
      PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr
      ORDER BY x.seq NULLS FIRST
    )
  ) AS r
  LEFT JOIN event_outcomes AS o
    ON o.namesrv_id = r.namesrv_id AND o.day = r.day AND o.event_id = r.event_id
  /* topics of slaves are never taken over */
  WHERE
    r.version_before = r.data_version
    AND r.digest_before <> r.topic_config_digest
    AND r.broker_id = 0
    AND COALESCE(o.outcome, 'refreshed') <> 'applied'
    AND (
      $broker IS NULL OR r.broker_name = $broker
    )
    AND (
      $since IS NULL OR r.effect_time >= $since
    )
    AND (
      $until IS NULL OR r.effect_time < $until
    )
)
SELECT
  s.namesrv_id,
  s.broker_name,
  s.broker_addr,
  s.effect_time,
  s.topic_count AS topics,
  COUNT(*) AS skipped,
  ARRAY_TO_STRING(
    ARRAY_SLICE(
      LIST_SORT(COALESCE(ARRAY_AGG(t.told.topic) FILTER(WHERE t.told.topic IS NOT NULL), [])),
      1,
      5
    ),
    ', '
  ) AS names,
  s.outcome,
  s.event_id,
  s.source_file,
  s.source_offset
FROM skipped AS s
JOIN (
  SELECT
    topic_config_digest,
    UNNEST(topics) AS told
  FROM topic_configs
) AS t
  ON t.topic_config_digest = s.topic_config_digest
ANTI JOIN topic_queue_history AS h
  ON h.namesrv_id = s.namesrv_id
  AND h.broker_name = s.broker_name
  AND h.topic = t.told.topic
  AND h.read_queue_nums = t.told.read_queue_nums
  AND h.write_queue_nums = t.told.write_queue_nums
  AND h.valid_from <= s.effect_time
  AND (
    h.valid_to IS NULL OR h.valid_to > s.effect_time
  )
GROUP BY
  s.namesrv_id,
  s.broker_name,
  s.broker_addr,
  s.effect_time,
  s.topic_count,
  s.outcome,
  s.event_id,
  s.source_file,
  s.source_offset
ORDER BY
  s.effect_time NULLS FIRST,
  s.namesrv_id NULLS FIRST,
  s.broker_addr NULLS FIRST

SELECT
  what,
  subject,
  number,
  first_time,
  event_id
FROM (
  SELECT
    'frames' AS what,
    f.key AS subject,
    SUM(f.value) AS number,
    CAST(NULL AS TIMESTAMPTZ) AS first_time,
    CAST(NULL AS TEXT) AS event_id
  FROM (
    SELECT
      UNNEST(MAP_ENTRIES(counts)) AS f
    FROM runs
    WHERE
      status = 'published'
  ) AS c
  WHERE
    f.key NOT LIKE 'outcome.%'
  GROUP BY
    f.key
  UNION ALL
  SELECT
    'recording ' || kind,
    namesrv_id,
    COUNT(*),
    MIN(effect_time),
    ARG_MIN_NULL(event_id, seq)
  FROM namesrv_events
  WHERE
    kind IN ('recording_gap', 'clock_went_back')
  GROUP BY
    kind,
    namesrv_id
  UNION ALL
  SELECT
    'quarantine',
    reason,
    COUNT(*),
    MIN(event_time),
    MIN(quarantine_id)
  FROM quarantine
  GROUP BY
    reason
  UNION ALL
  SELECT
    'order decision',
    kind,
    COUNT(*),
    MIN(effect_time),
    ARG_MIN_NULL(decision_id, effect_time)
  FROM order_decisions
  GROUP BY
    kind
  UNION ALL
  SELECT
    'answer ' || classification,
    namesrv_id,
    COUNT(*),
    MIN(answer_time),
    ARG_MIN_NULL(event_id, answer_time)
  FROM route_mismatches
  GROUP BY
    classification,
    namesrv_id
) AS found
WHERE
  number > 0
ORDER BY
  what NULLS FIRST,
  subject NULLS FIRST

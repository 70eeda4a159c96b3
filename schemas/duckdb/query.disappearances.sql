SELECT
  r.namesrv_id,
  r.effect_time,
  r.topics,
  r.names,
  c.operation,
  c.outcome,
  c.broker_name,
  c.broker_addr,
  r.caused_by AS event_id,
  c.source_file,
  c.source_offset
FROM (
  SELECT
    namesrv_id,
    effect_time,
    caused_by,
    COUNT(*) AS topics,
    ARRAY_TO_STRING(
      ARRAY_SLICE(LIST_SORT(COALESCE(ARRAY_AGG(topic) FILTER(WHERE topic IS NOT NULL), [])), 1, 5),
      ', '
    ) AS names
  FROM route_changes
  WHERE
    change = 'vanished'
    AND (
      $since IS NULL OR effect_time >= $since
    )
    AND (
      $until IS NULL OR effect_time < $until
    )
  GROUP BY
    namesrv_id,
    effect_time,
    caused_by
) AS r
LEFT JOIN causes AS c
  ON c.namesrv_id = r.namesrv_id AND c.event_id = r.caused_by
ORDER BY
  r.effect_time NULLS FIRST,
  r.namesrv_id NULLS FIRST

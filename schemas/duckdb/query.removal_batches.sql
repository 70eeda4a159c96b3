SELECT
  l.namesrv_id,
  l.to_time AS effect_time,
  c.operation,
  l.brokers,
  l.broker_names,
  COALESCE(r.vanished, 0) AS topics_vanished,
  COALESCE(r.changed, 0) AS topics_changed,
  l.closed_by AS event_id,
  c.source_file,
  c.source_offset
FROM (
  SELECT
    namesrv_id,
    closed_by,
    to_time,
    COUNT(*) AS brokers,
    ARRAY_TO_STRING(
      LIST_SORT(LIST(DISTINCT broker_name) FILTER(WHERE
        NOT broker_name IS NULL)),
      ', '
    ) AS broker_names
  FROM broker_lives
  WHERE
    NOT closed_by IS NULL
  GROUP BY
    namesrv_id,
    closed_by,
    to_time
) AS l
LEFT JOIN (
  SELECT
    namesrv_id,
    caused_by,
    SUM(CASE WHEN change = 'vanished' THEN 1 ELSE 0 END) AS vanished,
    SUM(CASE WHEN change = 'changed' THEN 1 ELSE 0 END) AS changed
  FROM route_changes
  GROUP BY
    namesrv_id,
    caused_by
) AS r
  ON r.namesrv_id = l.namesrv_id AND r.caused_by = l.closed_by
LEFT JOIN causes AS c
  ON c.namesrv_id = l.namesrv_id AND c.event_id = l.closed_by
WHERE
  (
    $since IS NULL OR l.to_time >= $since
  )
  AND (
    $until IS NULL OR l.to_time < $until
  )
ORDER BY
  l.brokers DESC,
  topics_vanished DESC,
  effect_time NULLS FIRST,
  l.namesrv_id NULLS FIRST

WITH lone AS (
  SELECT
    r.*,
    COALESCE(o.outcome, 'refreshed') AS outcome
  FROM registrations AS r
  LEFT JOIN event_outcomes AS o
    ON o.namesrv_id = r.namesrv_id AND o.day = r.day AND o.event_id = r.event_id
  LEFT JOIN broker_lives AS l
    ON l.namesrv_id = r.namesrv_id AND l.opened_by = r.event_id
  WHERE
    r.topic_count = 1
    AND (
      NOT l.opened_by IS NULL OR o.outcome = 'refused_lone_topic'
    )
)
SELECT
  p.namesrv_id,
  p.broker_name,
  p.broker_addr,
  p.effect_time,
  p.outcome,
  MIN(more.effect_time) AS complete_time,
  DATE_SUB('MILLISECOND', p.effect_time, MIN(more.effect_time)) AS partial_ms,
  p.event_id,
  p.source_file,
  p.source_offset
FROM lone AS p
LEFT JOIN registrations AS more
  ON more.namesrv_id = p.namesrv_id
  AND more.broker_addr = p.broker_addr
  AND more.topic_count > 1
  AND more.effect_time > p.effect_time
WHERE
  (
    $since IS NULL OR p.effect_time >= $since
  )
  AND (
    $until IS NULL OR p.effect_time < $until
  )
GROUP BY
  p.namesrv_id,
  p.broker_name,
  p.broker_addr,
  p.effect_time,
  p.outcome,
  p.event_id,
  p.source_file,
  p.source_offset
ORDER BY
  p.effect_time NULLS FIRST,
  p.namesrv_id NULLS FIRST

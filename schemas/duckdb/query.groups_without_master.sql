WITH gone AS (
  SELECT
    m.namesrv_id,
    m.broker_name,
    m.valid_to AS from_time,
    m.closed_by,
    LEAD(m.valid_from) OVER place AS to_time,
    LEAD(m.opened_by) OVER place AS ended_by
  FROM broker_addr_history AS m
  WHERE
    m.broker_id = 0
  WINDOW place AS (PARTITION BY m.namesrv_id, m.broker_name ORDER BY m.opened_at NULLS FIRST)
)
SELECT
  g.namesrv_id,
  g.broker_name,
  g.from_time,
  g.to_time,
  DATE_SUB('MILLISECOND', g.from_time, g.to_time) AS lasted_ms,
  ARRAY_TO_STRING(
    LIST_SORT(
      LIST(DISTINCT s.broker_id || '=' || s.broker_addr) FILTER(WHERE
        NOT s.broker_id || '=' || s.broker_addr IS NULL)
    ),
    ', '
  ) AS members,
  MAX(CASE WHEN s.enable_acting_master THEN 1 ELSE 0 END) = 1 AS may_act,
  o.operation,
  g.closed_by AS event_id,
  g.ended_by AS closed_by
FROM gone AS g
JOIN broker_addr_history AS s
  ON s.namesrv_id = g.namesrv_id
  AND s.broker_name = g.broker_name
  AND s.broker_id <> 0
  AND s.valid_from <= g.from_time
  AND (
    s.valid_to IS NULL OR s.valid_to > g.from_time
  )
LEFT JOIN event_outcomes AS o
  ON o.namesrv_id = g.namesrv_id AND o.event_id = g.closed_by
WHERE
  NOT g.from_time IS NULL
  AND (
    g.to_time IS NULL OR g.to_time > g.from_time
  )
  AND (
    $until IS NULL OR g.from_time < $until
  )
  AND (
    $since IS NULL OR g.to_time IS NULL OR g.to_time > $since
  )
GROUP BY
  g.namesrv_id,
  g.broker_name,
  g.from_time,
  g.to_time,
  o.operation,
  g.closed_by,
  g.ended_by
ORDER BY
  g.from_time NULLS FIRST,
  g.namesrv_id NULLS FIRST,
  g.broker_name NULLS FIRST

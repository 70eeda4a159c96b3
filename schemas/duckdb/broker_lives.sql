CREATE OR REPLACE TEMPORARY VIEW broker_lives AS
SELECT * FROM (
SELECT
  s.namesrv_id,
  ARG_MAX_NULL(s.cluster_name, s.opened_at),
  ARG_MAX_NULL(s.broker_name, s.opened_at),
  s.broker_addr,
  MIN(s.valid_from),
  ARG_MAX_NULL(s.valid_to, s.opened_at),
  ARG_MIN_NULL(s.opened_by, s.opened_at),
  ARG_MAX_NULL(s.closed_by, s.opened_at),
  ARG_MAX_NULL(o.operation, s.opened_at),
  ARG_MAX_NULL(s.heartbeat_timeout_ms, s.opened_at)
FROM (
  SELECT
    n.*,
    SUM(n.comes) OVER (
      PARTITION BY n.namesrv_id, n.live_key
      ORDER BY n.opened_at NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS stay
  FROM (
    SELECT
      h.*,
      COALESCE(h.cluster_name, '') || ' ' || h.broker_addr AS live_key,
      CASE
        WHEN LAG(h.closed_by) OVER (
          PARTITION BY h.namesrv_id, COALESCE(h.cluster_name, ''), h.broker_addr
          ORDER BY h.opened_at NULLS FIRST
        ) IS NOT DISTINCT FROM h.opened_by
        THEN 0
        ELSE 1
      END AS comes
    FROM broker_live_history AS h
  ) AS n
) AS s
LEFT JOIN event_outcomes AS o
  ON o.namesrv_id = s.namesrv_id AND o.event_id = s.closed_by
GROUP BY
  s.namesrv_id,
  s.live_key,
  s.broker_addr,
  s.stay
) AS made(namesrv_id, cluster_name, broker_name, broker_addr, from_time, to_time, opened_by, closed_by, left_by, heartbeat_timeout_ms)

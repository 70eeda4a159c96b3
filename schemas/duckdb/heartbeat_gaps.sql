CREATE OR REPLACE TEMPORARY VIEW heartbeat_gaps AS
SELECT * FROM (
SELECT
  l.namesrv_id,
  COALESCE(b.broker_name, l.broker_name),
  b.broker_addr,
  b.after_time,
  DATE_SUB('MILLISECOND', b.after_time, b.effect_time),
  l.heartbeat_timeout_ms,
  b.event_id,
  b.day
FROM (
  SELECT
    r.*,
    LAG(r.effect_time) OVER (
      PARTITION BY r.namesrv_id, COALESCE(r.cluster_name, ''), r.broker_name, r.broker_addr
      ORDER BY r.seq NULLS FIRST
    ) AS after_time
  FROM live_refreshes AS r
) AS b
/* both beats lie in one stay: what is between two stays is an absence, no gap */
JOIN broker_lives AS l
  ON l.namesrv_id = b.namesrv_id
  AND l.broker_addr = b.broker_addr
  AND (
    l.cluster_name IS NULL OR l.cluster_name IS NOT DISTINCT FROM b.cluster_name
  )
  AND b.after_time >= l.from_time
  AND (
    l.to_time IS NULL OR b.effect_time <= l.to_time
  )
) AS made(namesrv_id, broker_name, broker_addr, after_time, gap_ms, lease_ms, event_id, day)

WITH gone AS (
  SELECT
    *
  FROM broker_lives
  WHERE
    NOT left_by IN ('namesrv_started', 'namesrv_stopped', 'recording_gap')
    AND (
      $since IS NULL OR to_time >= $since
    )
    AND (
      $until IS NULL OR to_time < $until
    )
), hours AS (
  SELECT
    g.namesrv_id,
    g.broker_name,
    g.broker_addr,
    g.to_time AS first_time,
    MAX(o.to_time) AS last_time,
    COUNT(*) AS departures,
    ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT o.left_by) FILTER(WHERE
      NOT o.left_by IS NULL)), ', ') AS operations,
    LIST_SORT(COALESCE(ARRAY_AGG(o.closed_by) FILTER(WHERE o.closed_by IS NOT NULL), [])) AS event_ids
  FROM gone AS g
  JOIN gone AS o
    ON o.namesrv_id = g.namesrv_id
    AND o.broker_name = g.broker_name
    AND o.broker_addr = g.broker_addr
    AND o.to_time >= g.to_time
    AND DATE_SUB('SECOND', g.to_time, o.to_time) < 3600
  GROUP BY
    g.namesrv_id,
    g.broker_name,
    g.broker_addr,
    g.to_time
  HAVING
    COUNT(*) >= $times
)
SELECT
  h.namesrv_id,
  h.broker_name,
  h.broker_addr,
  h.first_time,
  h.last_time,
  h.departures,
  h.operations,
  h.event_ids
FROM hours AS h
/* of hours that overlap the first */
ANTI JOIN hours AS earlier
  ON earlier.namesrv_id = h.namesrv_id
  AND earlier.broker_name = h.broker_name
  AND earlier.broker_addr = h.broker_addr
  AND earlier.first_time < h.first_time
  AND earlier.last_time >= h.first_time
ORDER BY
  h.first_time NULLS FIRST,
  h.namesrv_id NULLS FIRST,
  h.broker_addr NULLS FIRST

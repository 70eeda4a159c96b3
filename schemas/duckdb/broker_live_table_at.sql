CREATE OR REPLACE TEMPORARY MACRO broker_live_table_at(_t) AS TABLE
SELECT * FROM (
SELECT
  c.namesrv_id,
  c.nothing,
  c.nothing,
  c.nothing,
  CAST(c.nothing AS TIMESTAMPTZ),
  CAST(c.nothing AS BIGINT),
  CAST(NULL AS STRUCT(state_version BIGINT, timestamp BIGINT, counter BIGINT)),
  c.nothing,
  c.nothing,
  CAST(c.nothing AS TIMESTAMPTZ),
  c.nothing,
  c.known,
  c.coverage
FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ)) AS c
WHERE
  NOT c.known
UNION ALL
SELECT
  r.namesrv_id,
  r.cluster_name,
  r.broker_addr,
  FIRST(r.broker_name),
  GREATEST(FIRST(r.first_update_time), MAX(DATE_TRUNC('MILLISECOND', refresh.effect_time))), /* a row that was opened before this day starts with what the day before left */
  FIRST(r.heartbeat_timeout_ms),
  FIRST(r.data_version),
  FIRST(r.channel_id),
  FIRST(r.ha_server_addr),
  FIRST(r.valid_from),
  FIRST(r.opened_by),
  FIRST(
    c.known
    OR (
      c.recorded
      AND COALESCE(r.known_from >= c.known_since AND r.known_from <= r.t, FALSE)
    )
  ),
  FIRST(c.coverage)
FROM (
  SELECT
    rows.*,
    CAST(_t AS TIMESTAMPTZ) AS t
  FROM broker_live_history_slices AS rows
) AS r
JOIN slice_days AS slice
  ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
JOIN COVERAGE_AT(CAST(_t AS TIMESTAMPTZ)) AS c
  ON c.namesrv_id = r.namesrv_id AND c.is_covered
LEFT JOIN live_refreshes AS refresh
  ON refresh.namesrv_id = r.namesrv_id
  AND refresh.day = r.day
  AND refresh.broker_addr IS NOT DISTINCT FROM r.broker_addr
  AND (
    r.cluster_name IS NULL
    OR refresh.cluster_name IS NOT DISTINCT FROM r.cluster_name
  )
  AND refresh.seq >= r.opened_at.seq
  AND refresh.effect_time <= r.t
WHERE
  ARRAY_CONTAINS(DAYS_IN_FORCE(CAST(_t AS TIMESTAMPTZ)), r.day)
  AND slice.from_time <= CAST(_t AS TIMESTAMPTZ)
  AND slice.until > CAST(_t AS TIMESTAMPTZ)
  AND r.valid_from <= CAST(_t AS TIMESTAMPTZ)
  AND (
    r.valid_to IS NULL OR r.valid_to > CAST(_t AS TIMESTAMPTZ)
  )
GROUP BY
  r.namesrv_id,
  r.cluster_name,
  r.broker_addr
) AS made(namesrv_id, cluster_name, broker_addr, broker_name, last_update_timestamp, heartbeat_timeout_ms, data_version, channel_id, ha_server_addr, valid_from, opened_by, known, coverage)

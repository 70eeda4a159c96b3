CREATE OR REPLACE TEMPORARY VIEW broker_live_history AS
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.cluster_name,
  r.broker_addr,
  r.broker_name,
  r.data_version,
  r.heartbeat_timeout_ms,
  r.channel_id,
  r.ha_server_addr,
  r.first_update_time,
  r.last_update_time,
  r.valid_from,
  r.valid_to,
  r.opened_by,
  r.closed_by,
  r.opened_at,
  r.closed_at,
  r.entered_at,
  r.outer_entered_at,
  r.known_from,
  r.beginning_seen
FROM broker_live_history_slices AS r
JOIN slice_days AS s
  ON s.namesrv_id = r.namesrv_id AND s.day = r.day
/* closed intervals are whole in the slice of their last day, open ones in the last */
WHERE
  NOT r.closed_by IS NULL OR s.is_last
) AS made(namesrv_id, cluster_name, broker_addr, broker_name, data_version, heartbeat_timeout_ms, channel_id, ha_server_addr, first_update_time, last_update_time, valid_from, valid_to, opened_by, closed_by, opened_at, closed_at, entered_at, outer_entered_at, known_from, beginning_seen)

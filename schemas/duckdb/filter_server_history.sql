CREATE OR REPLACE TEMPORARY VIEW filter_server_history AS
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.cluster_name,
  r.broker_addr,
  r.filter_servers,
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
FROM filter_server_history_slices AS r
JOIN slice_days AS s
  ON s.namesrv_id = r.namesrv_id AND s.day = r.day
/* closed intervals are whole in the slice of their last day, open ones in the last */
WHERE
  NOT r.closed_by IS NULL OR s.is_last
) AS made(namesrv_id, cluster_name, broker_addr, filter_servers, valid_from, valid_to, opened_by, closed_by, opened_at, closed_at, entered_at, outer_entered_at, known_from, beginning_seen)

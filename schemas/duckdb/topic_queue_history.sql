CREATE OR REPLACE TEMPORARY VIEW topic_queue_history AS
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.topic,
  r.broker_name,
  r.read_queue_nums,
  r.write_queue_nums,
  r.perm,
  r.topic_sys_flag,
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
FROM topic_queue_history_slices AS r
JOIN slice_days AS s
  ON s.namesrv_id = r.namesrv_id AND s.day = r.day
/* closed intervals are whole in the slice of their last day, open ones in the last */
WHERE
  NOT r.closed_by IS NULL OR s.is_last
) AS made(namesrv_id, topic, broker_name, read_queue_nums, write_queue_nums, perm, topic_sys_flag, valid_from, valid_to, opened_by, closed_by, opened_at, closed_at, entered_at, outer_entered_at, known_from, beginning_seen)

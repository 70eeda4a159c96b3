CREATE OR REPLACE TEMPORARY VIEW orphaned_intervals AS
SELECT * FROM (
SELECT
  namesrv_id,
  topic,
  broker_name,
  reason,
  valid_from,
  ARG_MAX_NULL(valid_to, day),
  opened_by,
  ARG_MAX_NULL(closed_by, day)
FROM orphaned_topics
GROUP BY
  namesrv_id,
  topic,
  broker_name,
  reason,
  valid_from,
  opened_by
) AS made(namesrv_id, topic, broker_name, reason, from_time, to_time, opened_by, closed_by)

CREATE OR REPLACE TEMPORARY VIEW queue_changes AS
SELECT * FROM (
SELECT
  after.namesrv_id,
  after.topic,
  after.broker_name,
  after.valid_from,
  after.opened_by,
  before.read_queue_nums,
  after.read_queue_nums,
  before.write_queue_nums,
  after.write_queue_nums,
  before.perm,
  after.perm
FROM topic_queue_history AS before
JOIN topic_queue_history AS after
  ON after.namesrv_id = before.namesrv_id
  AND after.topic IS NOT DISTINCT FROM before.topic
  AND after.broker_name IS NOT DISTINCT FROM before.broker_name
  AND after.opened_by = before.closed_by
  AND after.opened_at > before.opened_at
WHERE
  before.read_queue_nums <> after.read_queue_nums
  OR before.write_queue_nums <> after.write_queue_nums
  OR before.perm <> after.perm
) AS made(namesrv_id, topic, broker_name, effect_time, event_id, read_before, read_after, write_before, write_after, perm_before, perm_after)

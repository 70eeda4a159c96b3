-- One change of the queues or permission of a topic on a broker name; the topic's first and last appearance are left out
-- columns: namesrv_id, topic, broker_name, effect_time, event_id
-- column read_before: Queues to read from before
-- column read_after: Queues to read from after
-- column write_before: Queues to write to before
-- column write_after: Queues to write to after
-- column perm_before: Permission bits before: 4 read, 2 write, 1 inherit
-- column perm_after: Permission bits after
SELECT
    after.namesrv_id, after.topic, after.broker_name, after.valid_from, after.opened_by,
    before.read_queue_nums, after.read_queue_nums, before.write_queue_nums, after.write_queue_nums, before.perm, after.perm
FROM topic_queue_history AS before
JOIN topic_queue_history AS after
    ON after.namesrv_id = before.namesrv_id AND after.topic <=> before.topic AND after.broker_name <=> before.broker_name
    AND after.opened_by = before.closed_by AND after.opened_at > before.opened_at
WHERE before.read_queue_nums <> after.read_queue_nums OR before.write_queue_nums <> after.write_queue_nums
    OR before.perm <> after.perm

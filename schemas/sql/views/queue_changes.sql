CREATE OR REPLACE TEMPORARY VIEW queue_changes (
    namesrv_id COMMENT 'Name server',
    topic COMMENT 'Topic',
    broker_name COMMENT 'Broker name',
    effect_time COMMENT 'When',
    event_id COMMENT 'Event that did it',
    read_before COMMENT 'Queues to read from before',
    read_after COMMENT 'After',
    write_before COMMENT 'Queues to write to before',
    write_after COMMENT 'After',
    perm_before COMMENT 'Permission bits before: 4 read, 2 write, 1 inherit',
    perm_after COMMENT 'After'
)
COMMENT 'One change of the queues or the permission that a broker name offers for a topic, its coming and going left out'
AS
SELECT
    after.namesrv_id, after.topic, after.broker_name, after.valid_from, after.opened_by,
    before.read_queue_nums, after.read_queue_nums, before.write_queue_nums, after.write_queue_nums, before.perm, after.perm
FROM topic_queue_history AS before
JOIN topic_queue_history AS after
    ON after.namesrv_id = before.namesrv_id AND after.topic <=> before.topic AND after.broker_name <=> before.broker_name
    AND after.opened_by = before.closed_by AND after.opened_at > before.opened_at
WHERE before.read_queue_nums <> after.read_queue_nums OR before.write_queue_nums <> after.write_queue_nums
    OR before.perm <> after.perm

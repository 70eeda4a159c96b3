-- Topics that nobody could send to, except those that clients do not send to.
-- meaning: nobody could send to a topic
-- severity: critical
-- threshold: unwritable_after_ms
-- remedy: Look at the event: bring the broker back, or restore the write permission with addWritePerm
SELECT
    'critical' AS severity, t.topic AS subject, valid_from AS from_time, valid_to AS to_time,
    'no queue with write permission on a broker name with a master' AS detail,
    [opened_by, closed_by] AS evidence, [t.topic] AS topic_names,
    -- the broker names of the event that began it
    coalesce(list_transform(o.brokers_gone, lambda gone: gone.broker_name), [o.broker_name]) AS broker_names
FROM orphaned_topics AS t
LEFT JOIN event_outcomes AS o ON o.event_id = t.opened_by
WHERE reason = 'no_writable_queue'
    AND NOT starts_with(t.topic, 'rmq_sys_SYNC_BROKER_MEMBER_')
    AND coalesce(epoch_us(valid_to) - epoch_us(valid_from) >= $unwritable_us, TRUE)

-- Topics that nobody could send to, but those that nobody is meant to send to.
SELECT
    'critical' AS severity, topic AS subject, valid_from AS from_time, valid_to AS to_time,
    'no queue with write permission on a broker name with a master' AS detail,
    list_filter([opened_by, closed_by], lambda id: id IS NOT NULL) AS evidence
FROM orphaned_topics
WHERE reason = 'no_writable_queue'
    AND NOT starts_with(topic, 'rmq_sys_SYNC_BROKER_MEMBER_')
    AND coalesce(epoch_us(valid_to) - epoch_us(valid_from) >= $unwritable_us, TRUE)

-- Topics that nobody could send to.
SELECT
    namesrv_id, 'NO_WRITABLE_QUEUE' AS code, 'critical' AS severity, topic AS subject,
    valid_from AS from_time, valid_to AS to_time, 'no queue with write permission on a broker name with a master' AS detail,
    filter(array(opened_by, closed_by), id -> id IS NOT NULL) AS evidence, day
FROM {orphaned_topics}
WHERE reason = 'no_writable_queue'

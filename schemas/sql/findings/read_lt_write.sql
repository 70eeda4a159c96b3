-- Queues that are written to and that nobody reads.
SELECT
    namesrv_id, 'READ_LT_WRITE' AS code, 'warning' AS severity, concat_ws('@', topic, broker_name) AS subject,
    valid_from AS from_time, valid_to AS to_time,
    concat(read_queue_nums, ' queues to read from, ', write_queue_nums, ' to write to') AS detail,
    filter(array(opened_by, closed_by), id -> id IS NOT NULL) AS evidence, day
FROM {topic_queue_history}
WHERE read_queue_nums < write_queue_nums

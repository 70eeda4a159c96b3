-- Brokers that offered the topic, with the permission.
SELECT * FROM (
    SELECT namesrv_id, broker_name, valid_from AS from_time, valid_to AS to_time, perm, read_queue_nums AS read_queues,
        write_queue_nums AS write_queues, opened_by
    FROM topic_queue_history WHERE topic = $topic AND {of_namesrv}
) WHERE {alive}
ORDER BY namesrv_id, broker_name, from_time

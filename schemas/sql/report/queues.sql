-- Who offered the topic, and what was permitted.
SELECT namesrv_id, broker_name, min(valid_from) AS from_time, max_by(valid_to, day) AS to_time, min(perm) AS perm,
    min(read_queue_nums) AS read_queues, min(write_queue_nums) AS write_queues, min(opened_by) AS opened_by
FROM topic_queue_history_slices WHERE day IN ({days}) AND topic = $topic AND {of_namesrv}
GROUP BY namesrv_id, broker_name, opened_at HAVING {alive}
ORDER BY namesrv_id, broker_name, from_time

CREATE OR REPLACE TEMPORARY FUNCTION topic_queue_table_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    topic STRING COMMENT 'Topic',
    broker_name STRING COMMENT 'Broker name',
    read_queue_nums INT COMMENT 'Queues to read from',
    write_queue_nums INT COMMENT 'Queues to write to',
    perm INT COMMENT 'Permission bits: 4 read, 2 write, 1 inherit',
    topic_sys_flag INT COMMENT 'System flag bits: 1 unit, 2 unit-sub',
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so'
)
COMMENT 'topicQueueTable as every name server held it at t'
RETURN
    SELECT r.namesrv_id, r.topic, r.broker_name, r.read_queue_nums, r.write_queue_nums, r.perm, r.topic_sys_flag, r.valid_from, r.opened_by
    FROM topic_queue_history_slices AS r
    JOIN (
        SELECT namesrv_id, max(day) AS day FROM slice_days WHERE day <= to_date(topic_queue_table_at.t) GROUP BY namesrv_id
    ) AS slice ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
    WHERE r.valid_from <= topic_queue_table_at.t AND (r.valid_to IS NULL OR r.valid_to > topic_queue_table_at.t)

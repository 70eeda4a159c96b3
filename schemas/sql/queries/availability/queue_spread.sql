-- How are the queues of a topic spread over brokers at t, compared with an earlier instant?
-- parameter topic STRING: topic
-- parameter t TIMESTAMP: instant
-- parameter before TIMESTAMP: earlier instant
-- columns: namesrv_id, broker_name
-- column read_queue_nums: queues to read from at t; NULL = the broker had none
-- column write_queue_nums: queues to write to at t
-- column write_share: share of the topic's writable queues at t; NULL = it has none
-- column read_before: queues to read from at the earlier instant
-- column write_before: queues to write to at the earlier instant
-- column share_before: share of the topic's writable queues at the earlier instant; NULL = it has none
-- column opened_by: event that set the queues at t
-- column known: FALSE = the queues at one of the two instants are only believed
SELECT
    coalesce(n.namesrv_id, b.namesrv_id) AS namesrv_id, coalesce(n.broker_name, b.broker_name) AS broker_name,
    n.read_queue_nums, n.write_queue_nums, n.share AS write_share, b.read_queue_nums AS read_before,
    b.write_queue_nums AS write_before, b.share AS share_before, n.opened_by,
    coalesce(n.known, TRUE) AND coalesce(b.known, TRUE) AS known
FROM (
    SELECT
        *,
        round(CAST(100 AS DOUBLE) * write_queue_nums / nullif(sum(write_queue_nums) OVER (PARTITION BY namesrv_id), 0), 1) AS share
    FROM topic_queue_table_at(:t)
    WHERE topic = :topic OR opened_by IS NULL
) AS n
FULL JOIN (
    SELECT
        *,
        round(CAST(100 AS DOUBLE) * write_queue_nums / nullif(sum(write_queue_nums) OVER (PARTITION BY namesrv_id), 0), 1) AS share
    FROM topic_queue_table_at(:before)
    WHERE topic = :topic OR opened_by IS NULL
) AS b ON b.namesrv_id = n.namesrv_id AND b.broker_name <=> n.broker_name
ORDER BY 1, 2

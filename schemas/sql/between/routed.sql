-- The set of topics that a name server routed to each broker name since when, as two numbers: their count and the exclusive-or of
-- their hashes. A row that only continues with other queues is no step.
SELECT
    broker_name, epoch_us(moved) AS at_us, CAST(sum(sum(step)) OVER so_far AS BIGINT) AS topics,
    bit_xor(bit_xor(hash(topic))) OVER so_far AS parity
FROM (
    SELECT broker_name, greatest(valid_from, $start) AS moved, topic, 1 AS step FROM topic_queue_history
    UNION ALL
    SELECT broker_name, valid_to, topic, -1 FROM topic_queue_history WHERE valid_to IS NOT NULL
)
WHERE broker_name IS NOT NULL
GROUP BY broker_name, moved
HAVING sum(step) <> 0 OR bit_xor(hash(topic)) <> 0
WINDOW so_far AS (PARTITION BY broker_name ORDER BY moved)

-- Units that register a topic that their broker name does not have: 5.x brings it back. Topics are compared by the sum
-- of their hashes first, since nearly always all are there and no others.
WITH registered AS (
    SELECT DISTINCT unit, broker_name, topic_config_digest FROM beats WHERE topic_config_digest IS NOT NULL
), wanted AS (
    SELECT unit, broker_name, list_distinct(list_transform(topics, lambda t: t.topic)) AS listed,
        len(listed) AS number, list_aggregate(list_transform(listed, lambda t: hash(t)), 'bit_xor') AS sum
    FROM registered JOIN configs USING (topic_config_digest)
), had AS (
    SELECT broker_name, count(*) AS number, bit_xor(hash(topic)) AS sum FROM queues GROUP BY broker_name
), asked AS (
    SELECT unit, broker_name, unnest(listed) AS topic FROM wanted ANTI JOIN had USING (broker_name, number, sum)
)
SELECT DISTINCT unit FROM asked ANTI JOIN queues
    ON queues.broker_name IS NOT DISTINCT FROM asked.broker_name AND queues.topic IS NOT DISTINCT FROM asked.topic

-- Broker names that have exactly the topics that their runs register, compared by the sum of their hashes.
WITH registered AS (
    SELECT broker_name, any_value(topic_config_digest) AS digest FROM runs
    WHERE topic_config_digest IS NOT NULL GROUP BY broker_name HAVING count(DISTINCT topic_config_digest) = 1
), wanted AS (
    SELECT broker_name, digest, list_distinct(list_transform(topics, lambda t: t.topic)) AS listed,
        len(listed) AS number, list_aggregate(list_transform(listed, lambda t: hash(t)), 'bit_xor') AS sum
    FROM registered JOIN configs ON topic_config_digest = digest
), had AS (
    SELECT broker_name, count(*) AS number, bit_xor(hash(topic)) AS sum FROM queues GROUP BY broker_name
)
SELECT broker_name, digest FROM wanted JOIN had USING (broker_name, number, sum)

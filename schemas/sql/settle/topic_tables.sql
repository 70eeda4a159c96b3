-- The topic tables of broker names that registered several, with their times.
SELECT broker_name, topic_config_digest, min(first_seq) AS first_seq, max(last_seq) AS last_seq
FROM hours
WHERE kind = 'registrations' AND refusal IS NULL AND topic_config_digest IS NOT NULL
GROUP BY broker_name, topic_config_digest
QUALIFY count(*) OVER (PARTITION BY broker_name) > 1

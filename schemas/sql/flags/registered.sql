-- The topic tables that the masters of broker names registered.
SELECT DISTINCT broker_name, topic_config_digest
FROM hours
WHERE kind = 'registrations' AND broker_id = 0 AND refusal IS NULL AND topic_config_digest IS NOT NULL

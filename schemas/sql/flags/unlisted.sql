-- Topics that are routed to a broker name whose master registered a table without them.
WITH listed AS (
    SELECT DISTINCT topic_config_digest, unnest(topics).topic AS topic FROM configs
)

SELECT DISTINCT h.topic
FROM (SELECT DISTINCT topic, broker_name FROM queues) AS h
JOIN registered AS s ON s.broker_name = h.broker_name
JOIN configs AS c ON c.topic_config_digest = s.topic_config_digest AND c.topic_count > 1
ANTI JOIN listed AS l ON l.topic_config_digest = s.topic_config_digest AND l.topic = h.topic

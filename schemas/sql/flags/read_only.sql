-- Topics without write permission that their master itself registers without it, with the first such registration while the
-- permission is missing. `registered`: topic tables that the master registered then; `single`: the registrations themselves.
WITH listed AS (
    SELECT topic_config_digest AS digest, unnest(topics) AS config FROM configs
)

SELECT
    l.broker_name, l.topic, arg_min(r.effect_time, r.seq) AS seen_time, arg_min(r.event_id, r.seq) AS event_id
FROM lost AS l
JOIN registered AS s ON s.broker_name = l.broker_name AND s.valid_from = l.valid_from
JOIN listed AS c ON c.digest = s.digest AND c.config.topic = l.topic AND c.config.perm & 2 = 0
JOIN single AS r ON r.seq = s.seq
GROUP BY l.broker_name, l.topic, l.valid_from

-- Responses to registrations at times when the process certainly held order configurations, from the beginning of the day or put
-- before; a namespace once made stays. returnOrderTopicConfigToBroker is off if they have no body. At most one response a second.
WITH held AS (
    SELECT seq FROM requests WHERE code = 100 AND response_code = 0 AND namespace = $namespace
    UNION ALL
    SELECT 0 FROM kept WHERE namespace = $namespace
)
SELECT min(responses.seq) AS seq, arg_min(event_id, responses.seq) AS event_id
FROM responses ASOF JOIN held ON epoch_us(event_time) * 1000 >= held.seq
WHERE NOT EXISTS (FROM life WHERE kind = 'namesrv_started' AND life.seq BETWEEN held.seq AND responses.seq)
GROUP BY epoch_us(event_time) // 1_000_000

-- What routes show of orderMessageEnable. It is on if a route has an order configuration, and off if a route has none although its
-- topic certainly has one, from the beginning of the day or put during it. It is not certain after a gap, after a request without an
-- answer, or if a request that deletes it had arrived before the route left.
WITH changes AS (
    SELECT config_key AS topic, epoch_us(event_time) * 1000 AS arrival_seq, seq,
        code = 100 AND config_value IS NOT NULL AND response_code IS NOT NULL AS present
    FROM requests WHERE code IN (100, 102) AND coalesce(response_code, 0) = 0 AND namespace = $namespace
    UNION ALL
    SELECT config_key, 0, 0, TRUE
    FROM kept WHERE config_value IS NOT NULL AND config_key IS NOT NULL AND namespace = $namespace
), confs AS (
    FROM changes
    UNION ALL
    SELECT DISTINCT topic, life.seq, life.seq, FALSE FROM changes, life WHERE kind = 'recording_gap'
), routes AS (
    SELECT answers.seq, event_id, request_seq, subject AS topic, regexp_matches(text, '"orderTopicConf"\s*:\s*"') AS value
    FROM answers JOIN bodies ON body = number WHERE code = 105 AND response_code = 0
)
SELECT seq, event_id, value FROM routes WHERE value
UNION ALL
SELECT routes.seq, event_id, value FROM routes ASOF JOIN confs ON routes.topic = confs.topic AND request_seq >= confs.seq
WHERE NOT value AND present AND NOT EXISTS (
    SELECT 1 FROM confs AS gone
    WHERE gone.topic = routes.topic AND NOT gone.present AND gone.seq > request_seq AND gone.arrival_seq <= routes.seq
)

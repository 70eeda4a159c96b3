-- Order configurations of topics: those that the day began with, and those that were put or deleted on it. Behind a gap, and after
-- a request without an answer, it is not certain that there is one.
WITH confs AS (
    SELECT config_key AS topic, epoch_us(event_time) * 1000 AS arrival_seq, seq,
        code = 100 AND config_value IS NOT NULL AND response_code IS NOT NULL AS present
    FROM requests WHERE code IN (100, 102) AND coalesce(response_code, 0) = 0 AND namespace = $namespace
    UNION ALL
    SELECT config_key, 0, 0, TRUE
    FROM kept WHERE config_value IS NOT NULL AND config_key IS NOT NULL AND namespace = $namespace
)
FROM confs
UNION ALL
SELECT DISTINCT topic, life.seq, life.seq, FALSE FROM confs, life WHERE kind = 'recording_gap'

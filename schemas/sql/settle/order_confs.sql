-- Order configurations of topics: those that the day began with, and those that were put or deleted on it.
SELECT config_key AS topic, epoch_us(event_time) * 1000 AS arrival_seq, seq,
    code = 100 AND config_value IS NOT NULL AS present
FROM requests WHERE code IN (100, 102) AND response_code = 0 AND namespace = $namespace
UNION ALL
SELECT config_key, 0, 0, TRUE
FROM kept WHERE config_value IS NOT NULL AND config_key IS NOT NULL AND namespace = $namespace

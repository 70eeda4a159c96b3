-- Answers that no longer show a broker, although its leases did not lapse since an answer showed it: it sent something within each lease.
WITH beats AS (
    SELECT epoch_us(effect_time) AS at_us, broker_addr, heartbeat_timeout_ms FROM registrations WHERE refusal IS NULL
    UNION ALL SELECT epoch_us(effect_time), broker_addr, NULL FROM heartbeats WHERE coalesce(response_code, 0) = 0
), silences AS (
    SELECT broker_addr, at_us, at_us // 1000 + min(coalesce(heartbeat_timeout_ms, $default_ms)) OVER of_broker AS end_ms,
        lead(at_us) OVER (of_broker ORDER BY at_us) // 1000 AS next_ms
    FROM beats WINDOW of_broker AS (PARTITION BY broker_addr)
)
SELECT seq, event_id FROM answers WHERE NOT EXISTS (
    SELECT 1 FROM silences
    WHERE silences.broker_addr = answers.broker_addr AND at_us >= had_seq // 1000 AND coalesce(next_ms > end_ms, TRUE)
        AND end_ms * 1000000 < answers.seq
)

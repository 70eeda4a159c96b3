-- Starts, stops and gaps of name servers.
SELECT namesrv_id, kind, effect_time, event_id, properties FROM namesrv_events
WHERE kind IN ('started', 'stopped', 'recording_gap', 'observed_from') AND {of_namesrv}
ORDER BY namesrv_id, seq

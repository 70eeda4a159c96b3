-- When did name servers disagree about a topic's brokers for longer than some seconds, and which of them lacked it?
-- parameter seconds INT = 60: shorter disagreements are left out; brokers send heartbeats every 30 s
-- parameters: since, until
-- columns: topic, broker_name, from_time, to_time, lasted_ms
-- column known_to: name servers that had it
-- column name_servers: number of name servers
-- column event_id: event that began the disagreement
-- columns: closed_by
SELECT
    topic, broker_name, from_time, to_time, timestampdiff(MILLISECOND, from_time, to_time) AS lasted_ms,
    array_join(known_to, ', ') AS known_to, name_servers, opened_by AS event_id, closed_by
FROM namesrv_divergence
WHERE (to_time IS NULL OR timestampdiff(MILLISECOND, from_time, to_time) > CAST(1000 AS BIGINT) * :seconds)
    AND {overlaps(from_time, to_time)}
ORDER BY from_time, topic, broker_name

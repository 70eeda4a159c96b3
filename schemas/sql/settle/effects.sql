-- Requests, each under way since `received_seq`, and the ends of brokers' connections.
WITH owners AS (
    SELECT channel_id, broker_name FROM hours WHERE kind = 'registrations' UNION SELECT channel_id, broker_name FROM live
)
SELECT kind, channel_id, broker_name, seq, received_us * 1000 AS received_seq, arrival_us
FROM events WHERE received_us IS NOT NULL
UNION ALL
SELECT kind, channel_id, owners.broker_name, seq, NULL, NULL
FROM events JOIN owners USING (channel_id) WHERE kind = 'channel_events'

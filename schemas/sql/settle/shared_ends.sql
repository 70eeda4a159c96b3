-- Whether several brokers registered over a connection that ended with two events.
WITH owners AS (
    SELECT channel_id, cluster_name, broker_addr FROM hours WHERE kind = 'registrations'
    UNION SELECT channel_id, cluster_name, broker_addr FROM live
), ends AS (
    SELECT channel_id, seq - lag(seq) OVER (PARTITION BY channel_id ORDER BY seq) AS behind_ns
    FROM events WHERE kind = 'channel_events'
)
SELECT EXISTS (
    SELECT 1 FROM ends JOIN owners USING (channel_id) WHERE behind_ns <= $lag_ns
    GROUP BY channel_id HAVING count(DISTINCT (cluster_name, broker_addr)) > 1
) AS races

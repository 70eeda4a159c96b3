-- Runs of equal heartbeats with nothing in between, each as one event. All runs of a live entry between the same events renew its
-- lease as of the last heartbeat of them all.
WITH merged AS (
    SELECT * EXCLUDE (row, slot_us, bucket, slots, beats, first_us, last_us, lag_ns, responses, first_seq, last_seq),
        if($with_cluster, cluster_name, NULL) AS cluster, min(first_seq) AS seq, max(last_us) AS last_us
    FROM hours GROUP BY ALL
)
SELECT * EXCLUDE cluster, 'run-' || seq AS event_id,
    max(last_us) OVER (PARTITION BY cluster, broker_addr, behind) AS effect_us,
    if(
        coalesce(version_state, version_timestamp, version_counter) IS NULL, NULL,
        {'state_version': version_state, 'timestamp': version_timestamp, 'counter': version_counter}
    ) AS data_version
FROM merged

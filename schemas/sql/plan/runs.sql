-- Equal beats of a bucket as one event, which renews the lease as of the last of all the bucket's.
SELECT *, first_seq AS seq, 'run-' || first_seq AS event_id,
    max(last_us) OVER (PARTITION BY if($with_cluster, cluster_name, NULL), broker_addr, slot_us, bucket) AS effect_us,
    if(
        coalesce(version_state, version_timestamp, version_counter) IS NULL, NULL,
        {'state_version': version_state, 'timestamp': version_timestamp, 'counter': version_counter}
    ) AS data_version
FROM hours

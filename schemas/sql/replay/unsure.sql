-- Beats of which it is not plain that they only renew a lease: the core tries them. Plain is what names a live entry and gives
-- no version, or that of the entry, which is what its broker reported last.
WITH beats AS (
    SELECT * EXCLUDE (version_state, version_timestamp, version_counter), if(
        coalesce(version_state, version_timestamp, version_counter) IS NULL, NULL,
        {'state_version': version_state, 'timestamp': version_timestamp, 'counter': version_counter}
    ) AS data_version FROM hours
)
SELECT beats.number
FROM beats
LEFT JOIN live ON live.broker_addr = beats.broker_addr
    AND live.cluster_name IS NOT DISTINCT FROM if($with_cluster, beats.cluster_name, NULL)
LEFT JOIN reported ON reported.broker_addr = beats.broker_addr
    AND reported.broker_name IS NOT DISTINCT FROM beats.broker_name
    AND reported.cluster_name IS NOT DISTINCT FROM beats.cluster_name
WHERE NOT coalesce(
    live.broker_addr IS NOT NULL AND (NOT $with_cluster OR beats.cluster_name IS NOT NULL) AND (
        beats.code = $light OR beats.code = $asked
            AND beats.data_version = live.data_version AND beats.data_version = reported.data_version
            AND ($with_state OR coalesce(beats.data_version.state_version, 0) = 0)
    ), false
)
ORDER BY number

-- When each data version that was new on the day was first recorded.
SELECT
    namesrv_id, cluster_name, broker_name, broker_addr, data_version, min(valid_from) AS seen_time,
    arg_min(opened_by, valid_from) AS seen_by
FROM data_version_history
WHERE valid_from >= $start AND beginning_seen AND data_version.timestamp IS NOT NULL
GROUP BY ALL

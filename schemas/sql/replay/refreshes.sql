-- Plain refreshes by live entry and hour: those of runs, and counted ones.
SELECT cluster_name, broker_addr, hour, CAST(sum(refreshes) AS BIGINT) AS refreshes,
    min(first_time) AS first_time, max(last_time) AS last_time
FROM (
    SELECT if($with_cluster, cluster_name, NULL) AS cluster_name, broker_addr,
        date_trunc('hour', make_timestamptz(first_us)) AS hour, beats AS refreshes,
        make_timestamptz(first_us) AS first_time, make_timestamptz(last_us) AS last_time
    FROM hours
    UNION ALL
    SELECT cluster_name, broker_addr, hour, refreshes, first_time, last_time FROM counted
) GROUP BY ALL

-- Plain refreshes by live entry and hour: those of runs that renewed one, and counted ones.
SELECT cluster_name, broker_addr, hour, CAST(sum(refreshes) AS BIGINT) AS refreshes,
    min(first_time) AS first_time, max(last_time) AS last_time
FROM (
    SELECT if($with_cluster, cluster_name, NULL) AS cluster_name, broker_addr,
        date_trunc('hour', make_timestamptz(first_us)) AS hour, beats AS refreshes,
        make_timestamptz(first_us) AS first_time, make_timestamptz(last_us) AS last_time
    FROM hours ANTI JOIN unrenewed ON of_addr IS NOT DISTINCT FROM broker_addr AND of_behind IS NOT DISTINCT FROM behind
        AND of_cluster IS NOT DISTINCT FROM if($with_cluster, cluster_name, NULL)
    UNION ALL
    SELECT cluster_name, broker_addr, hour, refreshes, first_time, last_time FROM counted
) GROUP BY ALL

-- When a live entry beat last, on the day or before.
WITH beats AS (
    SELECT if($with_cluster, cluster_name, NULL) AS cluster, broker_addr AS addr,
        make_timestamptz(max(last_us) // 1000 * 1000) AS last_beat
    FROM hours GROUP BY ALL
)
SELECT coalesce(last_beat, last_update_time) AS last_beat FROM live LEFT JOIN beats
    ON addr IS NOT DISTINCT FROM broker_addr AND cluster IS NOT DISTINCT FROM if($with_cluster, cluster_name, NULL)
ORDER BY row

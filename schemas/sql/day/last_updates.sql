-- Live entries of a day with their last renewal in it. For entries open when the day ended, `beats` has the last renewal.
SELECT live.* REPLACE (
    -- an entry known only from a log has neither a lease nor a last renewal
    if(live.heartbeat_timeout_ms IS NULL, NULL,
        coalesce(if(live.valid_to IS NULL, beats.last_update_time, live.last_update_time), live.first_update_time)) AS last_update_time
)
FROM live LEFT JOIN beats ON beats.namesrv_id = live.namesrv_id AND beats.broker_addr IS NOT DISTINCT FROM live.broker_addr
    AND beats.cluster_name IS NOT DISTINCT FROM live.cluster_name

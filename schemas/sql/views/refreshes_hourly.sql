-- One hour of a broker's plain refreshes: heartbeats and registrations that did nothing but renew its lease
-- columns: namesrv_id
-- column cluster_name: Cluster in the request
-- columns: broker_addr
-- column hour: Start of the hour
-- column refreshes: Plain refreshes in it
-- column first_time: First of them
-- column last_time: Last of them
-- columns: day
SELECT
    r.namesrv_id, r.cluster_name, r.broker_addr, date_trunc('HOUR', r.effect_time), count(*), min(r.effect_time),
    max(r.effect_time), r.day
FROM live_refreshes AS r
LEFT ANTI JOIN event_outcomes AS o ON o.namesrv_id = r.namesrv_id AND o.day = r.day AND o.event_id = r.event_id
GROUP BY r.namesrv_id, r.cluster_name, r.broker_addr, date_trunc('HOUR', r.effect_time), r.day

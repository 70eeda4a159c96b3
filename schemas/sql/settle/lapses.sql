-- Leases that ended, of entries that no other event removed before and no packet of a scan after. The span begins when a scan may
-- remove the entry, and ends when it must have, or when a heartbeat or another event comes first. All times are positions.
-- Entries with leases of different lengths are left out; heartbeats in `holes` are there one by one.
WITH registered AS (
    SELECT cluster_name, broker_addr, channel_id, heartbeat_timeout_ms FROM live
    UNION ALL SELECT cluster_name, broker_addr, channel_id, if($own_lease, heartbeat_timeout_ms, NULL) FROM hours
    WHERE kind = 'registrations' AND refusal IS NULL
), leases AS (
    SELECT if($with_cluster, cluster_name, NULL) AS cluster, broker_addr, min(coalesce(heartbeat_timeout_ms, $default_ms)) AS lease_ms
    FROM registered GROUP BY ALL HAVING lease_ms = max(coalesce(heartbeat_timeout_ms, $default_ms)) AND lease_ms BETWEEN 0 AND $longest_ms
), beats AS (
    SELECT cluster_name, broker_addr, epoch_us(last_update_time) AS from_us, from_us AS until_us FROM live
    UNION ALL SELECT cluster_name, hours.broker_addr, first_us, last_us
    FROM hours ANTI JOIN holes ON hours.broker_addr IS NOT DISTINCT FROM holes.broker_addr AND first_us // $period_us = holes.period
    WHERE refusal IS NULL
    UNION ALL SELECT cluster_name, broker_addr, epoch_us(effect_time), epoch_us(effect_time) FROM registrations WHERE refusal IS NULL
    UNION ALL SELECT cluster_name, broker_addr, epoch_us(effect_time), epoch_us(effect_time) FROM heartbeats
    WHERE coalesce(response_code, 0) = 0
), renewed AS (
    SELECT broker_addr, if($with_cluster, cluster_name, NULL) AS cluster, lead(from_us) OVER of_entry AS next_us,
        max(until_us) OVER (of_entry ROWS UNBOUNDED PRECEDING) AS until_us
    FROM beats WINDOW of_entry AS (PARTITION BY if($with_cluster, cluster_name, NULL), broker_addr ORDER BY from_us)
), ended AS (
    SELECT renewed.broker_addr, until_us * 1000 AS beat_seq, next_us * 1000 AS next_seq, (until_us // 1000 + lease_ms + 1) * 1000000 AS from_seq
    FROM renewed JOIN leases ON leases.broker_addr = renewed.broker_addr AND leases.cluster IS NOT DISTINCT FROM renewed.cluster
    WHERE from_seq < $until_seq AND coalesce(next_us // 1000 - until_us // 1000 > lease_ms, TRUE)
), gone AS (
    SELECT seq, broker_addr FROM channel_ends JOIN (SELECT DISTINCT broker_addr, channel_id FROM registered) USING (channel_id)
    UNION ALL SELECT seq, broker_addr FROM unregistrations WHERE broker_addr IS NOT NULL
    UNION ALL SELECT seq, NULL FROM life WHERE kind IN ('started', 'stopped', 'recording_gap')
), lapsed AS (
    SELECT DISTINCT ended.broker_addr, beat_seq, from_seq, next_seq, least(own.seq, of_all.seq) AS gone_seq
    FROM ended
    ASOF LEFT JOIN (FROM gone WHERE broker_addr IS NOT NULL) AS own ON own.broker_addr = ended.broker_addr AND own.seq > beat_seq
    ASOF LEFT JOIN (FROM gone WHERE broker_addr IS NULL) AS of_all ON of_all.seq > beat_seq
)
SELECT broker_addr, beat_seq, from_seq, least(from_seq + $scan_ns, next_seq, gone_seq, $until_seq) AS until_seq
FROM lapsed
WHERE coalesce(gone_seq > from_seq AND len(list_filter($closes, lambda seq: gone_seq BETWEEN seq AND seq + $one_scan_ns)) = 0, TRUE)
ORDER BY from_seq, broker_addr

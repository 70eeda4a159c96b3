-- How long are the gaps between each broker's heartbeats (median, p99, longest), compared with its lease?
-- parameters: broker, since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column beats: number of gaps between heartbeats
-- column p50_ms: median gap in milliseconds
-- column p99_ms: gap that one in a hundred exceeds
-- column max_ms: longest gap
-- column lease_ms: lease in milliseconds
-- column max_share: longest gap in percent of the lease
-- column event_id: heartbeat that ended the longest gap
SELECT
    namesrv_id, broker_name, broker_addr, count(*) AS beats,
    round(CAST(percentile(gap_ms, 0.5) AS DOUBLE), 1) AS p50_ms,
    round(CAST(percentile(gap_ms, 0.99) AS DOUBLE), 1) AS p99_ms, max(gap_ms) AS max_ms, min(lease_ms) AS lease_ms,
    round(CAST(100 AS DOUBLE) * max(gap_ms) / nullif(min(lease_ms), 0), 1) AS max_share,
    max_by(event_id, struct(gap_ms, event_id)) AS event_id
FROM heartbeat_gaps
WHERE (:broker IS NULL OR broker_name = :broker) AND {within(after_time)}
GROUP BY namesrv_id, broker_name, broker_addr
ORDER BY max_share DESC, namesrv_id, broker_addr, broker_name

-- Hours in which heartbeats of a live entry may lie further apart than its lease: slots are empty, or wider than half the lease.
WITH asked AS (
    SELECT broker_addr, heartbeat_timeout_ms AS lease_ms FROM live
    UNION ALL
    SELECT broker_addr, coalesce(if($own_lease, heartbeat_timeout_ms, NULL), $default_ms) FROM hours
    WHERE kind = 'registrations'
), leases AS (
    SELECT broker_addr AS of_addr, min(lease_ms) AS lease_ms FROM asked GROUP BY broker_addr
), buckets AS (
    SELECT broker_addr, slot_us, bit_or(slots) AS slots, min(first_us) AS first_us, max(last_us) AS last_us
    FROM hours WHERE refusal IS NULL GROUP BY broker_addr, if($with_cluster, cluster_name, NULL), slot_us, bucket
)
SELECT DISTINCT broker_addr, first_us // $period_us AS period
FROM buckets LEFT JOIN leases ON of_addr IS NOT DISTINCT FROM broker_addr
WHERE first_us < last_us
    AND NOT coalesce((slots & (slots + (slots & -slots))) = 0 AND 2 * slot_us <= 1000 * lease_ms, FALSE)

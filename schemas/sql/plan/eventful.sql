-- When something may happen to a unit, for all that is told of it: its beats are not a run of ones, or too far apart; a
-- lease ends, and is scanned for; a topic that it has is deleted; any other event. A beat that was refused is none.
WITH asked AS (
    SELECT broker_addr, heartbeat_timeout_ms AS lease_ms FROM live
    UNION ALL
    SELECT broker_addr, coalesce(if($own_lease, heartbeat_timeout_ms, NULL), $default_ms) FROM hours
        WHERE kind = 'registrations'
), leases AS (
    SELECT broker_addr AS of_addr, min(if(lease_ms BETWEEN 0 AND $longest_ms, lease_ms, 0)) AS lease_ms
    FROM asked GROUP BY broker_addr
), spans AS (
    -- Of each live entry one row for the state in which the day begins, and one for each bucket.
    SELECT unit, if($with_cluster, cluster_name, NULL) AS cluster, broker_addr, NULL AS slot_us, NULL AS slots,
        epoch_us(last_update_time) AS first_us, epoch_us(last_update_time) AS last_us, true AS begins
    FROM live
    UNION ALL
    SELECT unit, if($with_cluster, cluster_name, NULL) AS cluster, broker_addr, slot_us, bit_or(slots),
        min(first_us), max(last_us), false
    FROM hours WHERE refusal IS NULL GROUP BY unit, cluster, broker_addr, slot_us, bucket
), followed AS (
    SELECT *, first_us // 1000 - lag(last_us // 1000) OVER of_entry AS silent_ms,
        coalesce(lead(first_us // 1000) OVER of_entry, $until_ms) - last_us // 1000 AS left_ms
    FROM spans LEFT JOIN leases ON of_addr IS NOT DISTINCT FROM broker_addr
    WINDOW of_entry AS (PARTITION BY cluster, broker_addr ORDER BY first_us)
), disturbed AS (
    -- The bits of a bucket are one run of ones if adding the lowest of them carries past all the others.
    SELECT unit, first_us AS from_us, last_us AS to_us FROM followed
    WHERE NOT begins AND NOT coalesce(
        (slots & (slots + (slots & -slots))) = 0 AND 2 * slot_us <= 1000 * lease_ms AND silent_ms <= lease_ms, false
    )
    UNION ALL
    SELECT unit, (last_us // 1000 + lease_ms) * 1000 AS ends_us, ends_us + $expiry_us FROM followed
    WHERE left_ms > lease_ms
    UNION ALL
    SELECT unit, first_us, last_us FROM hours WHERE refusal IS NOT NULL
    UNION ALL
    SELECT unit, coalesce(received_us, effect_us), effect_us FROM others
    UNION ALL
    SELECT deleted.unit, coalesce(received_us, effect_us), effect_us FROM deleted JOIN deletions USING (topic)
)
SELECT DISTINCT unit, unnest(generate_series(
    (least(from_us, to_us) - $margin_us) // $period_us, (greatest(from_us, to_us) + $margin_us) // $period_us
)) AS period
FROM disturbed

-- For each row of condensed heartbeats: whether they are replayed one by one, else the run that they belong to. A run is the rows of
-- an address that no one-by-one period parts. Heartbeats are replayed one by one in a period in which something may happen to the
-- broker names that the address sends for: heartbeats are missing or too far apart; a lease ends and a scan may see it; a heartbeat
-- is more than the plain renewal of a lease; any other event. A refused heartbeat does not count.
WITH beats AS (
    SELECT * EXCLUDE (slots, slot_us, bucket, beats, lag_ns, responses, first_seq, last_seq, version_state, version_timestamp, version_counter),
        if(
            coalesce(version_state, version_timestamp, version_counter) IS NULL, NULL,
            {'state_version': version_state, 'timestamp': version_timestamp, 'counter': version_counter}
        ) AS data_version
    FROM hours
), asked AS (
    SELECT broker_addr, heartbeat_timeout_ms AS lease_ms FROM live
    UNION ALL
    SELECT broker_addr, coalesce(if($own_lease, heartbeat_timeout_ms, NULL), $default_ms) FROM hours
        WHERE kind = 'registrations'
), leases AS (
    SELECT broker_addr AS of_addr, min(if(lease_ms BETWEEN 0 AND $longest_ms, lease_ms, 0)) AS lease_ms
    FROM asked GROUP BY broker_addr
), spans AS (
    -- For each live entry one row for the state at the beginning of the day, and one for each bucket.
    SELECT if($with_cluster, cluster_name, NULL) AS cluster, broker_addr, NULL AS slot_us, NULL AS slots,
        epoch_us(last_update_time) AS first_us, epoch_us(last_update_time) AS last_us, true AS begins
    FROM live
    UNION ALL
    SELECT if($with_cluster, cluster_name, NULL) AS cluster, broker_addr, slot_us, bit_or(slots),
        min(first_us), max(last_us), false
    FROM hours WHERE refusal IS NULL GROUP BY cluster, broker_addr, slot_us, bucket
), followed AS (
    SELECT *, first_us // 1000 - lag(last_us // 1000) OVER of_entry AS silent_ms,
        coalesce(lead(first_us // 1000) OVER of_entry, $until_ms) - last_us // 1000 AS left_ms
    FROM (
        -- An entry without a stated lease has the default one.
        SELECT spans.*, coalesce(leases.lease_ms, $default_ms) AS lease_ms
        FROM spans LEFT JOIN leases ON of_addr IS NOT DISTINCT FROM broker_addr
    )
    WINDOW of_entry AS (PARTITION BY cluster, broker_addr ORDER BY first_us)
), news AS (
    -- A heartbeat is plain if it names a live entry and gives no version, or the entry's, which its broker reported last.
    SELECT * EXCLUDE (row, first_us, last_us), min(first_us) AS first_us, arg_min(last_us, first_us) AS last_us
    FROM (
        SELECT beats.* FROM beats
        LEFT JOIN live ON live.broker_addr = beats.broker_addr
            AND live.cluster_name IS NOT DISTINCT FROM if($with_cluster, beats.cluster_name, NULL)
        LEFT JOIN reported ON reported.broker_addr = beats.broker_addr
            AND reported.broker_name IS NOT DISTINCT FROM beats.broker_name
            AND reported.cluster_name IS NOT DISTINCT FROM beats.cluster_name
        WHERE NOT coalesce(
            live.broker_addr IS NOT NULL AND (NOT $with_cluster OR beats.cluster_name IS NOT NULL) AND (
                beats.code = $light OR beats.data_version = live.data_version AND beats.data_version = reported.data_version
                AND ($with_state OR coalesce(beats.data_version.state_version, 0) = 0) AND (
                    beats.code = $asked OR beats.broker_name IS NOT DISTINCT FROM live.broker_name
                    AND beats.channel_id IS NOT DISTINCT FROM live.channel_id
                    AND beats.ha_server_addr IS NOT DISTINCT FROM live.ha_server_addr
                )
            ), false
        )
    ) GROUP BY ALL
), contested AS (
    -- Two addresses that replace each other in a group, or one address with alternating content, change something each time.
    SELECT broker_addr, first_us, last_us, min(content) OVER place <> max(content) OVER place AS differs
    FROM (
        SELECT *, hash(
            cluster_name, broker_addr, data_version, channel_id, ha_server_addr, topic_config_digest, filter_servers,
            enable_acting_master, heartbeat_timeout_ms, zone_name
        ) AS content
        FROM beats WHERE kind = 'registrations'
    )
    WINDOW place AS (PARTITION BY broker_name, broker_id, first_us // $period_us)
), marks AS (
    -- When something may happen, and to what: an address, a broker name, the sender on a connection, or everything.
    -- The bits of a bucket are one run of ones if adding the lowest of them carries past all the others.
    SELECT 'a' AS kind, broker_addr AS whose, first_us AS from_us, last_us AS to_us FROM followed
    WHERE NOT begins AND NOT coalesce(
        (slots & (slots + (slots & -slots))) = 0 AND 2 * slot_us <= 1000 * lease_ms AND silent_ms <= lease_ms, false
    )
    UNION ALL
    SELECT 'a', broker_addr, (last_us // 1000 + lease_ms) * 1000 AS ends_us, ends_us + $expiry_us FROM followed
    WHERE left_ms > lease_ms
    UNION ALL
    SELECT 'a', broker_addr, first_us, last_us FROM hours WHERE refusal IS NOT NULL OR code = $light AND NOT $knows_light
    UNION ALL
    -- What a response shows is true at its own position.
    SELECT 'a', broker_addr, first_us, last_us FROM hours WHERE $is_unknown AND responses > 0
    UNION ALL
    SELECT 'a', broker_addr, first_us, last_us FROM news
    UNION ALL
    SELECT 'a', broker_addr, first_us, last_us FROM contested WHERE differs
    UNION ALL
    SELECT 'a', unnest([broker_addr, remote_addr]), coalesce(received_us, effect_us), effect_us FROM others
    UNION ALL
    SELECT 'n', unnest(list_append(list_transform(queue_datas, lambda q: q.broker_name), broker_name)),
        coalesce(received_us, effect_us), effect_us FROM others
    UNION ALL
    SELECT 'n', broker_name, coalesce(received_us, effect_us), effect_us FROM others WHERE queue_datas IS NULL
    UNION ALL
    SELECT 'c', channel_id, effect_us, effect_us FROM others WHERE channel_id IS NOT NULL
    UNION ALL
    SELECT 'n', deleted.broker_name, coalesce(received_us, effect_us), effect_us
    FROM others JOIN deleted USING (topic) WHERE code = $deletion
    UNION ALL
    SELECT '*', NULL, effect_us, effect_us FROM others WHERE kind = 'namesrv_events'
    UNION ALL
    -- Requests under way while the name server stood still may have raced with anything.
    SELECT '*', NULL, first_us - lag_ns // 1000, last_us FROM hours WHERE lag_ns >= $stall_ns
    UNION ALL
    SELECT '*', NULL, unnest($changes_us::BIGINT[]) AS at_us, at_us
), marked AS (
    SELECT DISTINCT kind, whose, unnest(generate_series(
        (least(from_us, to_us) - $margin_us) // $period_us, (greatest(from_us, to_us) + $margin_us) // $period_us
    )) AS period
    FROM marks
), connections AS (
    SELECT broker_addr, broker_name, channel_id FROM hours UNION SELECT broker_addr, broker_name, channel_id FROM live
), speakers AS (
    SELECT DISTINCT broker_addr, broker_name FROM connections
), happening AS (
    SELECT broker_addr, broker_name, period FROM marked JOIN speakers ON whose IS NOT DISTINCT FROM broker_addr WHERE kind = 'a'
    UNION
    SELECT broker_addr, broker_name, period FROM marked JOIN speakers ON whose IS NOT DISTINCT FROM broker_name WHERE kind = 'n'
    UNION
    SELECT broker_addr, broker_name, period FROM marked JOIN connections ON whose = channel_id WHERE kind = 'c'
    UNION
    SELECT broker_addr, NULL, period FROM marked, speakers WHERE kind = '*'
), eventful AS (
    SELECT broker_addr, period FROM happening
    UNION
    SELECT speakers.broker_addr, period FROM happening JOIN speakers USING (broker_name)
    UNION
    SELECT broker_addr, period FROM broken
), placed AS (
    SELECT row, broker_addr, first_us // $period_us AS period FROM hours
)
SELECT placed.row, max(eventful.period) AS behind, coalesce(behind = any_value(placed.period), false) AS is_single
FROM placed LEFT JOIN eventful
    ON eventful.broker_addr IS NOT DISTINCT FROM placed.broker_addr AND eventful.period <= placed.period
GROUP BY placed.row ORDER BY placed.row

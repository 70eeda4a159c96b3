-- Which broker names do two clusters claim, or two addresses in turn, and which overwrote which, when?
-- parameters: since, until
-- columns: namesrv_id
-- column what: kind of conflict: two clusters, or address
-- columns: broker_name
-- column first: cluster or address that was there
-- column second: cluster or address that came
-- columns: effect_time
-- column to_time: when it was over; NULL = not over, or a change of address, which has no duration
-- columns: event_id, source_file, source_offset
WITH conflicts AS (
    SELECT
        a.namesrv_id, 'two clusters' AS what, a.broker_name, a.cluster_name AS first, b.cluster_name AS second,
        b.valid_from AS effect_time, least(coalesce(a.valid_to, b.valid_to), coalesce(b.valid_to, a.valid_to)) AS to_time,
        b.opened_by AS event_id
    FROM cluster_addr_history AS a
    JOIN cluster_addr_history AS b
        ON b.namesrv_id = a.namesrv_id AND b.broker_name = a.broker_name AND b.cluster_name <> a.cluster_name
        AND b.opened_at > a.opened_at AND (a.valid_to IS NULL OR a.valid_to > b.valid_from)
    UNION ALL
    SELECT
        namesrv_id, concat('address of id ', broker_id), broker_name, addr_before, addr_after, effect_time,
        CAST(NULL AS TIMESTAMP), event_id
    FROM address_changes
    WHERE gap_ms = 0
)
SELECT
    x.namesrv_id, x.what, x.broker_name, x.first, x.second, x.effect_time, x.to_time, x.event_id, c.source_file,
    c.source_offset
FROM conflicts AS x
LEFT JOIN causes AS c ON c.namesrv_id = x.namesrv_id AND c.event_id = x.event_id
WHERE IF(x.what = 'two clusters', {overlaps(x.effect_time, x.to_time)}, {within(x.effect_time)})
ORDER BY x.effect_time, x.namesrv_id, x.broker_name, x.what

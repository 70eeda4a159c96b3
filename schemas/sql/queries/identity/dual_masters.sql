-- Which registrations were rejected for an older state version, and which took the place of another master?
-- parameters: since, until
-- columns: namesrv_id
-- column what: rejected, or master replaced
-- columns: broker_name
-- column broker_addr: address that was rejected, or that took the place
-- column held_by: address that held the place; NULL where that is not known
-- columns: effect_time, event_id, source_file, source_offset
WITH claims AS (
    SELECT
        o.namesrv_id, 'rejected' AS what, o.broker_name, o.broker_addr, max(h.broker_addr) AS held_by, o.effect_time,
        o.event_id
    FROM causes AS o
    LEFT JOIN broker_addr_history AS h
        ON h.namesrv_id = o.namesrv_id AND h.broker_name = o.broker_name AND h.broker_id = o.broker_id
        AND h.valid_from <= o.effect_time AND (h.valid_to IS NULL OR h.valid_to > o.effect_time)
    WHERE o.outcome = 'rejected_state_version'
    GROUP BY o.namesrv_id, o.broker_name, o.broker_addr, o.effect_time, o.event_id
    UNION ALL
    SELECT namesrv_id, 'master replaced', broker_name, addr_after, addr_before, effect_time, event_id
    FROM address_changes
    WHERE broker_id = 0 AND gap_ms = 0
)
SELECT
    x.namesrv_id, x.what, x.broker_name, x.broker_addr, x.held_by, x.effect_time, x.event_id, c.source_file, c.source_offset
FROM claims AS x
LEFT JOIN causes AS c ON c.namesrv_id = x.namesrv_id AND c.event_id = x.event_id
WHERE {within(x.effect_time)}
ORDER BY x.effect_time, x.namesrv_id, x.broker_name

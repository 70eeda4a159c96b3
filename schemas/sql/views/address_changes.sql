-- One change of the address that a group has under a broker id: at once, or after the id had been vacant for a while
-- columns: namesrv_id
-- column cluster_name: Cluster of the group
-- columns: broker_name
-- column broker_id: Broker id, 0 = master
-- column addr_before: Address before the change
-- column addr_after: Address after the change
-- column left_time: When the former address left
-- column left_by: event_id that removed the former address
-- column effect_time: When the new address appeared
-- column event_id: Event that added the new address
-- column gap_ms: Milliseconds for which the id was vacant; 0: the new address took it over
SELECT
    m.namesrv_id, m.cluster_name, m.broker_name, m.broker_id, m.addr_before, m.broker_addr, m.left_time, m.left_by,
    m.valid_from, m.opened_by, timestampdiff(MILLISECOND, m.left_time, m.valid_from)
FROM (
    SELECT
        h.*,
        lag(h.broker_addr) OVER place AS addr_before, lag(h.valid_to) OVER place AS left_time,
        lag(h.closed_by) OVER place AS left_by
    FROM broker_addr_history AS h
    WHERE h.broker_id IS NOT NULL
    WINDOW place AS (PARTITION BY h.namesrv_id, h.broker_name, h.broker_id ORDER BY h.opened_at)
) AS m
WHERE m.addr_before <> m.broker_addr

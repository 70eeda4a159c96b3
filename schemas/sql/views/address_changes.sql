CREATE OR REPLACE TEMPORARY VIEW address_changes (
    namesrv_id COMMENT 'Name server',
    cluster_name COMMENT 'Cluster of the group',
    broker_name COMMENT 'Broker name',
    broker_id COMMENT 'Broker id, 0 = master',
    addr_before COMMENT 'Address that held the place before',
    addr_after COMMENT 'Address that took it',
    left_time COMMENT 'When the former one went',
    left_by COMMENT 'event_id with which it went',
    effect_time COMMENT 'When the new one came',
    event_id COMMENT 'Event with which it came',
    gap_ms COMMENT 'Milliseconds for which the place was empty; 0: taken over'
)
COMMENT 'One change of the address under a broker name and id: at once, or after the place had been empty for a while'
AS
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

CREATE OR REPLACE TEMPORARY FUNCTION broker_addr_table_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    broker_name STRING COMMENT 'Broker name',
    broker_id BIGINT COMMENT 'Broker id, 0 = master; NULL: the group has no member',
    broker_addr STRING COMMENT 'Broker address, ip:port',
    cluster_name STRING COMMENT 'Cluster of the first registration of the group',
    enable_acting_master BOOLEAN COMMENT 'The group may have an acting master (5.x)',
    zone_name STRING COMMENT 'Zone (5.x)',
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so'
)
COMMENT 'brokerAddrTable as every name server held it at t, one row for each member'
RETURN
    SELECT r.namesrv_id, r.broker_name, r.broker_id, r.broker_addr, r.cluster_name, r.enable_acting_master, r.zone_name, r.valid_from, r.opened_by
    FROM broker_addr_history_slices AS r
    JOIN (
        SELECT namesrv_id, max(day) AS day FROM slice_days WHERE day <= to_date(broker_addr_table_at.t) GROUP BY namesrv_id
    ) AS slice ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
    WHERE r.valid_from <= broker_addr_table_at.t AND (r.valid_to IS NULL OR r.valid_to > broker_addr_table_at.t)

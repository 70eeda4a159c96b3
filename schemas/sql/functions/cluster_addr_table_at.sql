CREATE OR REPLACE TEMPORARY FUNCTION cluster_addr_table_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    cluster_name STRING COMMENT 'Cluster name',
    broker_name STRING COMMENT 'Broker name',
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so'
)
COMMENT 'clusterAddrTable as every name server held it at t'
RETURN
    SELECT r.namesrv_id, r.cluster_name, r.broker_name, r.valid_from, r.opened_by
    FROM cluster_addr_history_slices AS r
    JOIN (
        SELECT namesrv_id, max(day) AS day FROM slice_days WHERE day <= to_date(cluster_addr_table_at.t) GROUP BY namesrv_id
    ) AS slice ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
    WHERE r.valid_from <= cluster_addr_table_at.t AND (r.valid_to IS NULL OR r.valid_to > cluster_addr_table_at.t)

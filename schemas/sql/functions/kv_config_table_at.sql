CREATE OR REPLACE TEMPORARY FUNCTION kv_config_table_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    namespace STRING COMMENT 'KV namespace',
    config_key STRING COMMENT 'KV key; NULL: the namespace itself',
    config_value STRING COMMENT 'KV value; NULL if a null was put',
    valid_from TIMESTAMP COMMENT 'Since when it has been so',
    opened_by STRING COMMENT 'event_id that made it so'
)
COMMENT 'The KV configuration as every name server held it at t'
RETURN
    SELECT r.namesrv_id, r.namespace, r.config_key, r.config_value, r.valid_from, r.opened_by
    FROM kv_config_history_slices AS r
    JOIN (
        SELECT namesrv_id, max(day) AS day FROM slice_days WHERE day <= to_date(kv_config_table_at.t) GROUP BY namesrv_id
    ) AS slice ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
    WHERE r.valid_from <= kv_config_table_at.t AND (r.valid_to IS NULL OR r.valid_to > kv_config_table_at.t)

CREATE OR REPLACE TEMPORARY FUNCTION registry_diff(
    t1 TIMESTAMP COMMENT 'First instant',
    t2 TIMESTAMP COMMENT 'Second instant, later'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    table_name STRING COMMENT 'topicQueueTable, brokerAddrTable, clusterAddrTable, brokerLiveTable, filterServerTable, kvConfigTable',
    row_key STRING COMMENT 'Key of the row in that table',
    change STRING COMMENT 'appeared, vanished or changed',
    before STRING COMMENT 'Value at t1; NULL if there was none',
    after STRING COMMENT 'Value at t2; NULL if there is none',
    caused_by STRING COMMENT 'Event that made it as it is at t2, or that ended it'
)
COMMENT 'What differs between the tables of every name server at t1 and at t2; renewed leases are no difference'
RETURN
    SELECT
        d.namesrv_id, d.table_name, d.row_key,
        CASE WHEN max(d.before) IS NULL THEN 'appeared' WHEN max(d.after) IS NULL THEN 'vanished' ELSE 'changed' END,
        max(d.before), max(d.after),
        -- of a row that is gone the event that ended its last interval
        coalesce(max(d.opened_by), max_by(d.closed_by, d.valid_to))
    FROM (
        SELECT
            r.namesrv_id, r.table_name, r.row_key,
            IF(r.valid_from <= registry_diff.t1 AND (r.valid_to IS NULL OR r.valid_to > registry_diff.t1), r.value, NULL) AS before,
            IF(r.valid_from <= registry_diff.t2 AND (r.valid_to IS NULL OR r.valid_to > registry_diff.t2), r.value, NULL) AS after,
            IF(r.valid_from <= registry_diff.t2 AND (r.valid_to IS NULL OR r.valid_to > registry_diff.t2), r.opened_by, NULL)
                AS opened_by,
            IF(r.valid_to <= registry_diff.t2, r.valid_to, NULL) AS valid_to,
            IF(r.valid_to <= registry_diff.t2, r.closed_by, NULL) AS closed_by
        FROM registry_rows AS r
        WHERE r.valid_from <= registry_diff.t2 AND (r.valid_to IS NULL OR r.valid_to > registry_diff.t1)
    ) AS d
    GROUP BY d.namesrv_id, d.table_name, d.row_key
    HAVING NOT max(d.before) <=> max(d.after)

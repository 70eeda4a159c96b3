-- Rows of every name server's tables that differ between t1 and t2; a renewed lease is no difference
-- parameter t1 TIMESTAMP: First instant
-- parameter t2 TIMESTAMP: Second instant, later
-- columns: namesrv_id
-- column table_name STRING: topicQueueTable, brokerAddrTable, clusterAddrTable, brokerLiveTable, filterServerTable, kvConfigTable
-- column row_key STRING: Key of the row in that table
-- column change STRING: appeared, vanished or changed; not known: not a difference, coverage says what is not known
-- column before STRING: Value at t1; NULL if there was none
-- column after STRING: Value at t2; NULL if there is none
-- column caused_by STRING: event_id that set the value at t2, or removed the row
-- column known BOOLEAN: FALSE: one of the instants is not known in full, or not recorded, so the difference is only believed
-- column coverage STRING: What is known of the name server at both instants: in full, in part, or not recorded
SELECT n.namesrv_id, n.nothing, n.nothing, 'not known', n.nothing, n.nothing, n.nothing, n.known, n.coverage
FROM coverage_between(registry_diff.t1, registry_diff.t2) AS n
WHERE NOT n.known
UNION ALL
SELECT
    d.namesrv_id, d.table_name, d.row_key,
    CASE WHEN max(d.before) IS NULL THEN 'appeared' WHEN max(d.after) IS NULL THEN 'vanished' ELSE 'changed' END,
    max(d.before), max(d.after),
    -- for a row that is gone, the event that ended its last interval
    coalesce(max(d.opened_by), max_by(d.closed_by, d.valid_to)), n.known, n.coverage
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
JOIN coverage_between(registry_diff.t1, registry_diff.t2) AS n ON n.namesrv_id = d.namesrv_id AND n.is_covered
GROUP BY d.namesrv_id, d.table_name, d.row_key, n.known, n.coverage
HAVING NOT max(d.before) <=> max(d.after)

-- What differs between all tables of the name servers at two instants, and which events changed it?
-- parameter t1 TIMESTAMP: first instant
-- parameter t2 TIMESTAMP: second instant
-- columns: namesrv_id
-- column table_name: table of the name server
-- column row_key: key of the row
-- column change: appeared, vanished or changed; not known: see coverage
-- column before: value at the first instant
-- column after: value at the second
-- columns: operation, event_id
-- column coverage: what is known of the name server at both instants
SELECT
    d.namesrv_id, d.table_name, d.row_key, d.change, d.before, d.after, o.operation, d.caused_by AS event_id, d.coverage
FROM registry_diff(:t1, :t2) AS d
LEFT JOIN event_outcomes AS o ON o.namesrv_id = d.namesrv_id AND o.event_id = d.caused_by
ORDER BY d.namesrv_id, d.table_name, d.row_key

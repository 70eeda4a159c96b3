SELECT
  d.namesrv_id,
  d.table_name,
  d.row_key,
  d.change,
  d.before,
  d.after,
  o.operation,
  d.caused_by AS event_id,
  d.coverage
FROM REGISTRY_DIFF($t1, $t2) AS d
LEFT JOIN event_outcomes AS o
  ON o.namesrv_id = d.namesrv_id AND o.event_id = d.caused_by
ORDER BY
  d.namesrv_id NULLS FIRST,
  d.table_name NULLS FIRST,
  d.row_key NULLS FIRST

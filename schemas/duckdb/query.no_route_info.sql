SELECT
  w.namesrv_id,
  w.state,
  w.changed_time,
  w.operation,
  w.outcome,
  w.broker_name,
  w.broker_addr,
  w.detail,
  w.caused_by AS event_id,
  w.source_file,
  w.source_offset,
  w.next_time,
  w.next_operation,
  w.next_caused_by AS next_event_id,
  w.coverage
FROM WHY($topic, $t) AS w
ORDER BY
  w.namesrv_id NULLS FIRST

-- A client said "No route info of this topic" at t: did the topic exist then on each name server, and when and why did it vanish?
-- parameter topic STRING: topic
-- parameter t TIMESTAMP: instant
-- columns: namesrv_id
-- column state: routed, vanished, not yet seen or never seen; not known, not recorded: see coverage
-- column changed_time: last change of its route at or before t
-- columns: operation, outcome, broker_name, broker_addr
-- column detail: in words
-- columns: event_id, source_file, source_offset
-- column next_time: first change after t
-- column next_operation: operation of the event that caused it
-- column next_event_id: event that caused it
-- column coverage: what is known of the name server at t
SELECT
    w.namesrv_id, w.state, w.changed_time, w.operation, w.outcome, w.broker_name, w.broker_addr, w.detail,
    w.caused_by AS event_id, w.source_file, w.source_offset, w.next_time, w.next_operation, w.next_caused_by AS next_event_id,
    w.coverage
FROM why(:topic, :t) AS w
ORDER BY w.namesrv_id

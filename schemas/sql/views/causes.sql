-- The outcome of every event except plain refreshes, with its sender and where it is recorded
-- columns: namesrv_id, day
-- column seq: Position of the event
-- column event_id: event_id of the event
-- column effect_time: When the event took effect
-- column operation: Operation: register_broker, scan, channel_close ...
-- column outcome: Outcome of the event
-- column cluster_name: Cluster in the event
-- column broker_name: Broker name in the event; for a close or scan the first of brokers_gone
-- column broker_addr: Broker address in the event; for a close or scan the first of brokers_gone
-- column broker_id: Broker id in the request
-- column brokers_gone: Brokers that a close or scan removed, by name; NULL if none
-- column topic: Topic in the event
-- column channel_id: Connection of the event
-- column detail: Reason of a refusal, or a count
-- column source_file: File in which the event is recorded; NULL for a scan, which no recording shows
-- column source_offset: Packet or line number in that file
SELECT
    o.namesrv_id, o.day, o.seq, o.event_id, o.effect_time, o.operation, o.outcome,
    coalesce(o.cluster_name, e.cluster_name), coalesce(o.broker_name, e.broker_name),
    coalesce(o.broker_addr, e.broker_addr), e.broker_id, o.brokers_gone,
    coalesce(o.topic, e.topic), coalesce(o.channel_id, e.channel_id), coalesce(o.detail, e.detail),
    e.source_file, e.source_offset
FROM event_outcomes AS o
LEFT JOIN cause_events AS e ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id

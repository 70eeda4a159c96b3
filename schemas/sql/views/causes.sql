CREATE OR REPLACE TEMPORARY VIEW causes (
    namesrv_id COMMENT 'Name server',
    day COMMENT 'UTC date of effect_time',
    seq COMMENT 'Position of the event',
    event_id COMMENT 'Event',
    effect_time COMMENT 'When it took effect',
    operation COMMENT 'What it was: register_broker, scan, channel_close ...',
    outcome COMMENT 'What became of it',
    cluster_name COMMENT 'Cluster in the event',
    broker_name COMMENT 'Broker in the event; of a close or scan the first of brokers_gone',
    broker_addr COMMENT 'Its address, likewise',
    broker_id COMMENT 'Broker id in the request',
    brokers_gone COMMENT 'Brokers that went with a close or scan, by name; NULL if none',
    topic COMMENT 'Topic in the event',
    channel_id COMMENT 'Connection of the event',
    detail COMMENT 'Reason or count',
    source_file COMMENT 'File in which it is recorded; NULL for a scan, which nobody records',
    source_offset COMMENT 'Packet or line number in that file'
)
COMMENT 'What became of every event that was no plain refresh, who sent it, and where it is recorded'
AS
SELECT
    o.namesrv_id, o.day, o.seq, o.event_id, o.effect_time, o.operation, o.outcome,
    coalesce(o.cluster_name, e.cluster_name), coalesce(o.broker_name, e.broker_name),
    coalesce(o.broker_addr, e.broker_addr), e.broker_id, o.brokers_gone,
    coalesce(o.topic, e.topic), coalesce(o.channel_id, e.channel_id), coalesce(o.detail, e.detail),
    e.source_file, e.source_offset
FROM event_outcomes AS o
LEFT JOIN cause_events AS e ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id

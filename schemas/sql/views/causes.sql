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
LEFT JOIN (
    SELECT
        namesrv_id, day, event_id, cluster_name, broker_name, broker_addr, broker_id, topic, channel_id, detail,
        source_file, source_offset
    FROM events
    WHERE kind NOT IN ('broker_heartbeat', 'query_data_version')
    UNION ALL
    -- Beats are by far the most, and each id of one must be made: they are read on those days that tell of one.
    SELECT
        b.namesrv_id, b.day, b.event_id, b.cluster_name, b.broker_name, b.broker_addr, b.broker_id, NULL, b.channel_id,
        NULL, b.source_file, b.source_offset
    FROM (
        SELECT namesrv_id, day, event_id FROM event_outcomes
        WHERE operation IN ('broker_heartbeat', 'query_data_version')
    ) AS s
    JOIN heartbeats AS b ON b.namesrv_id = s.namesrv_id AND b.day = s.day AND b.event_id = s.event_id
) AS e ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id

CREATE OR REPLACE TEMPORARY VIEW causes (
    namesrv_id COMMENT 'Name server',
    day COMMENT 'UTC date of effect_time',
    seq COMMENT 'Position of the event',
    event_id COMMENT 'Event',
    effect_time COMMENT 'When it took effect',
    operation COMMENT 'What it was: register_broker, scan, channel_close ...',
    outcome COMMENT 'What became of it',
    cluster_name COMMENT 'Cluster in the event',
    broker_name COMMENT 'Broker in the event; of a close that of the live entry that went with it',
    broker_addr COMMENT 'Its address, likewise',
    broker_id COMMENT 'Broker id in the request',
    brokers_gone COMMENT 'Live entries that went with it',
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
    coalesce(o.cluster_name, e.cluster_name, gone.cluster_name),
    coalesce(o.broker_name, e.broker_name, gone.broker_name),
    coalesce(o.broker_addr, e.broker_addr, gone.broker_addr),
    e.broker_id, coalesce(gone.brokers, 0),
    coalesce(o.topic, e.topic), coalesce(o.channel_id, e.channel_id), coalesce(o.detail, e.detail),
    e.source_file, e.source_offset
FROM event_outcomes AS o
LEFT JOIN events AS e ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id
LEFT JOIN (
    SELECT
        live.namesrv_id, live.day, live.closed_by AS event_id, min(live.cluster_name) AS cluster_name,
        min(live.broker_name) AS broker_name, min(live.broker_addr) AS broker_addr, count(*) AS brokers
    FROM broker_live_history_slices AS live
    LEFT ANTI JOIN broker_live_history_slices AS after
        ON after.namesrv_id = live.namesrv_id AND after.day = live.day AND after.opened_by = live.closed_by
        AND after.broker_addr = live.broker_addr
    WHERE live.closed_by IS NOT NULL
    GROUP BY live.namesrv_id, live.day, live.closed_by
) AS gone ON gone.namesrv_id = o.namesrv_id AND gone.day = o.day AND gone.event_id = o.event_id

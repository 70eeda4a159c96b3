CREATE OR REPLACE TEMPORARY VIEW cause_events (
    namesrv_id COMMENT 'Name server',
    day COMMENT 'UTC date of effect_time',
    event_id COMMENT 'Event',
    cluster_name COMMENT 'Cluster in the request',
    broker_name COMMENT 'Broker name in the request',
    broker_addr COMMENT 'Broker address in the request',
    broker_id COMMENT 'Broker id in the request, 0 = master',
    topic COMMENT 'Topic in the request',
    channel_id COMMENT 'Connection; NULL where there is none',
    detail COMMENT 'Refusal, KV entry, who closed the connection, or evidence',
    source_file COMMENT 'File the row was read from',
    source_offset COMMENT 'Packet or line number in that file, from 1',
    ingest_run COMMENT 'Run that read the row'
)
COMMENT 'Recorded events that may have an outcome of their own: all but plain beats'
AS
SELECT
    namesrv_id, day, event_id, cluster_name, broker_name, broker_addr, broker_id, topic, channel_id, detail,
    source_file, source_offset, ingest_run
FROM other_events
UNION ALL
-- Beats are by far the most, and each id of one must be made: they are read on those days that tell of one.
SELECT
    b.namesrv_id, b.day, b.event_id, b.cluster_name, b.broker_name, b.broker_addr, b.broker_id, NULL, b.channel_id,
    NULL, b.source_file, b.source_offset, b.ingest_run
FROM (
    SELECT namesrv_id, day, event_id FROM event_outcomes
    WHERE operation IN ('broker_heartbeat', 'query_data_version')
) AS s
JOIN heartbeats AS b ON b.namesrv_id = s.namesrv_id AND b.day = s.day AND b.event_id = s.event_id

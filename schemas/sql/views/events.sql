CREATE OR REPLACE TEMPORARY VIEW events (
    namesrv_id COMMENT 'Name server',
    seq COMMENT 'Order within the name server: sort by namesrv_id, seq',
    event_id COMMENT 'Deterministic id from content and position',
    event_time COMMENT 'When the name server had received the last byte',
    effect_time COMMENT 'When the event took effect',
    channel_id COMMENT 'Connection; NULL where there is none',
    kind COMMENT 'What it is, in the words of event_outcomes.operation',
    code COMMENT 'Request code; NULL where it is no request',
    response_code COMMENT 'Code of the response; NULL if none was seen',
    cluster_name COMMENT 'Cluster in the request',
    broker_name COMMENT 'Broker name in the request',
    broker_addr COMMENT 'Broker address in the request',
    broker_id COMMENT 'Broker id in the request, 0 = master',
    topic COMMENT 'Topic in the request',
    detail COMMENT 'Refusal, KV entry, who closed the connection, or evidence',
    source_file COMMENT 'File the row was read from',
    source_offset COMMENT 'Packet or line number in that file, from 1',
    ingest_run COMMENT 'Run that read the row',
    day COMMENT 'UTC date of effect_time'
)
COMMENT 'All recorded events under one envelope'
AS
SELECT * FROM other_events
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, IF(code = 904, 'broker_heartbeat', 'query_data_version'), code, response_code, cluster_name, broker_name,
    broker_addr, broker_id, CAST(NULL AS STRING), CAST(NULL AS STRING), source_file, source_offset, ingest_run, day
FROM heartbeats

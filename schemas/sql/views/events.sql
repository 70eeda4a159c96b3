-- All recorded events of all kinds, with the same columns
{event_columns()}
SELECT * FROM other_events
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, IF(code = 904, 'broker_heartbeat', 'query_data_version'), code, response_code, cluster_name, broker_name,
    broker_addr, broker_id, CAST(NULL AS STRING), CAST(NULL AS STRING), source_file, source_offset, ingest_run, day
FROM heartbeats

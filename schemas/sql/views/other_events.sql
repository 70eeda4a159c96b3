-- All recorded events except heartbeats, with the columns of `events`
{event_columns()}
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, 'register_broker' AS kind, code, response_code, cluster_name, broker_name, broker_addr, broker_id,
    CAST(NULL AS STRING) AS topic, refusal AS detail, source_file, source_offset, ingest_run, day
FROM registrations
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, 'unregister_broker', code, response_code, cluster_name, broker_name, broker_addr, broker_id,
    CAST(NULL AS STRING), CAST(NULL AS STRING), source_file, source_offset, ingest_run, day
FROM unregistrations
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, 'channel_' || kind, CAST(NULL AS INT), CAST(NULL AS INT), CAST(NULL AS STRING), CAST(NULL AS STRING),
    CAST(NULL AS STRING), CAST(NULL AS BIGINT), CAST(NULL AS STRING), 'closed by ' || closed_by, source_file, source_offset, ingest_run, day
FROM channel_events
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id,
    CASE code
        WHEN 100 THEN 'put_kv_config' WHEN 102 THEN 'delete_kv_config' WHEN 205 THEN 'wipe_write_perm'
        WHEN 216 THEN 'delete_topic' WHEN 217 THEN 'register_topic' WHEN 318 THEN 'update_namesrv_config'
        WHEN 327 THEN 'add_write_perm' ELSE operation
    END,
    code, response_code, cluster_name, broker_name, CAST(NULL AS STRING), CAST(NULL AS BIGINT), topic,
    nullif(concat_ws(' ', namespace, config_key, config_value), ''), source_file, source_offset, ingest_run, day
FROM admin_events
UNION ALL
SELECT namesrv_id, seq, event_id, event_time, effect_time, channel_id, 'namesrv_' || kind, CAST(NULL AS INT), CAST(NULL AS INT), CAST(NULL AS STRING), CAST(NULL AS STRING),
    CAST(NULL AS STRING), CAST(NULL AS BIGINT), CAST(NULL AS STRING), evidence, source_file, source_offset, ingest_run, day
FROM namesrv_events

CREATE OR REPLACE TEMPORARY VIEW events AS
SELECT * FROM (
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  'register_broker' AS kind,
  code,
  response_code,
  cluster_name,
  broker_name,
  broker_addr,
  broker_id,
  CAST(NULL AS TEXT) AS topic,
  refusal AS detail,
  source_file,
  source_offset,
  ingest_run,
  day
FROM registrations
UNION ALL
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  'unregister_broker',
  code,
  response_code,
  cluster_name,
  broker_name,
  broker_addr,
  broker_id,
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  source_file,
  source_offset,
  ingest_run,
  day
FROM unregistrations
UNION ALL
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  CASE WHEN code = 904 THEN 'broker_heartbeat' ELSE 'query_data_version' END,
  code,
  response_code,
  cluster_name,
  broker_name,
  broker_addr,
  broker_id,
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  source_file,
  source_offset,
  ingest_run,
  day
FROM heartbeats
UNION ALL
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  'channel_' || kind,
  CAST(NULL AS INT),
  CAST(NULL AS INT),
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  CAST(NULL AS BIGINT),
  CAST(NULL AS TEXT),
  'closed by ' || closed_by,
  source_file,
  source_offset,
  ingest_run,
  day
FROM channel_events
UNION ALL
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  CASE code
    WHEN 100
    THEN 'put_kv_config'
    WHEN 102
    THEN 'delete_kv_config'
    WHEN 205
    THEN 'wipe_write_perm'
    WHEN 216
    THEN 'delete_topic'
    WHEN 217
    THEN 'register_topic'
    WHEN 318
    THEN 'update_namesrv_config'
    WHEN 327
    THEN 'add_write_perm'
    ELSE operation
  END,
  code,
  response_code,
  cluster_name,
  broker_name,
  CAST(NULL AS TEXT),
  CAST(NULL AS BIGINT),
  topic,
  NULLIF(CONCAT_WS(' ', namespace, config_key, config_value), ''),
  source_file,
  source_offset,
  ingest_run,
  day
FROM admin_events
UNION ALL
SELECT
  namesrv_id,
  seq,
  event_id,
  event_time,
  effect_time,
  channel_id,
  'namesrv_' || kind,
  CAST(NULL AS INT),
  CAST(NULL AS INT),
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  CAST(NULL AS TEXT),
  CAST(NULL AS BIGINT),
  CAST(NULL AS TEXT),
  evidence,
  source_file,
  source_offset,
  ingest_run,
  day
FROM namesrv_events
) AS made(namesrv_id, seq, event_id, event_time, effect_time, channel_id, kind, code, response_code, cluster_name, broker_name, broker_addr, broker_id, topic, detail, source_file, source_offset, ingest_run, day)

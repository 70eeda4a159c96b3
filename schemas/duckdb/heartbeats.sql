CREATE OR REPLACE TEMPORARY VIEW heartbeats AS
SELECT * FROM (
SELECT
  namesrv_id,
  seq,
  COALESCE(
    stated_id,
    MD5(
      CONCAT_WS(
        '|',
        namesrv_addr,
        channel_id,
        CAST(code AS TEXT),
        CAST(EPOCH_US(event_time) AS TEXT),
        CAST(nth AS TEXT)
      )
    )
  ) AS event_id,
  event_time,
  effect_time,
  channel_id,
  proxied_addr,
  namesrv_addr,
  code,
  one_way,
  request_version,
  response_code,
  response_remark,
  response_fields,
  response_body,
  cluster_name,
  broker_name,
  broker_addr,
  broker_id,
  data_version,
  nth,
  stated_id,
  source_file,
  source_offset,
  ingest_run,
  day
FROM heartbeats_stored
) AS made(namesrv_id, seq, event_id, event_time, effect_time, channel_id, proxied_addr, namesrv_addr, code, one_way, request_version, response_code, response_remark, response_fields, response_body, cluster_name, broker_name, broker_addr, broker_id, data_version, nth, stated_id, source_file, source_offset, ingest_run, day)

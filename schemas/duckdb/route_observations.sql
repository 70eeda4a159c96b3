CREATE OR REPLACE TEMPORARY VIEW route_observations AS
SELECT * FROM (
SELECT
  namesrv_id,
  EPOCH_US(effect_time) * 1000 + seq_rest AS seq,
  COALESCE(
    stated_id,
    MD5(
      CONCAT_WS(
        '|',
        namesrv_addr,
        channel_id,
        CAST(code AS TEXT),
        CAST(EPOCH_US(effect_time) AS TEXT),
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
  subject,
  scope,
  EPOCH_US(event_time) * 1000 + request_rest AS request_seq,
  standard_json,
  request_version,
  language,
  response_code,
  response_version,
  remark,
  response_fields,
  body,
  nth,
  stated_id,
  seq_rest,
  request_rest,
  source_file,
  source_offset,
  ingest_run,
  day
FROM route_observations_stored
) AS made(namesrv_id, seq, event_id, event_time, effect_time, channel_id, proxied_addr, namesrv_addr, code, subject, scope, request_seq, standard_json, request_version, language, response_code, response_version, remark, response_fields, body, nth, stated_id, seq_rest, request_rest, source_file, source_offset, ingest_run, day)

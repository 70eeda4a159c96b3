CREATE OR REPLACE TEMPORARY VIEW causes AS
SELECT * FROM (
SELECT
  o.namesrv_id,
  o.day,
  o.seq,
  o.event_id,
  o.effect_time,
  o.operation,
  o.outcome,
  COALESCE(o.cluster_name, e.cluster_name),
  COALESCE(o.broker_name, e.broker_name),
  COALESCE(o.broker_addr, e.broker_addr),
  e.broker_id,
  o.brokers_gone,
  COALESCE(o.topic, e.topic),
  COALESCE(o.channel_id, e.channel_id),
  COALESCE(o.detail, e.detail),
  e.source_file,
  e.source_offset
FROM event_outcomes AS o
LEFT JOIN cause_events AS e
  ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id
) AS made(namesrv_id, day, seq, event_id, effect_time, operation, outcome, cluster_name, broker_name, broker_addr, broker_id, brokers_gone, topic, channel_id, detail, source_file, source_offset)

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
  COALESCE(o.cluster_name, e.cluster_name, gone.cluster_name),
  COALESCE(o.broker_name, e.broker_name, gone.broker_name),
  COALESCE(o.broker_addr, e.broker_addr, gone.broker_addr),
  e.broker_id,
  COALESCE(gone.brokers, 0),
  COALESCE(o.topic, e.topic),
  COALESCE(o.channel_id, e.channel_id),
  COALESCE(o.detail, e.detail),
  e.source_file,
  e.source_offset
FROM event_outcomes AS o
LEFT JOIN events AS e
  ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id
LEFT JOIN (
  SELECT
    live.namesrv_id,
    live.day,
    live.closed_by AS event_id,
    MIN(live.cluster_name) AS cluster_name,
    MIN(live.broker_name) AS broker_name,
    MIN(live.broker_addr) AS broker_addr,
    COUNT(*) AS brokers
  FROM broker_live_history_slices AS live
  ANTI JOIN broker_live_history_slices AS after
    ON after.namesrv_id = live.namesrv_id
    AND after.day = live.day
    AND after.opened_by = live.closed_by
    AND after.broker_addr = live.broker_addr
  WHERE
    NOT live.closed_by IS NULL
  GROUP BY
    live.namesrv_id,
    live.day,
    live.closed_by
) AS gone
  ON gone.namesrv_id = o.namesrv_id AND gone.day = o.day AND gone.event_id = o.event_id
) AS made(namesrv_id, day, seq, event_id, effect_time, operation, outcome, cluster_name, broker_name, broker_addr, broker_id, brokers_gone, topic, channel_id, detail, source_file, source_offset)

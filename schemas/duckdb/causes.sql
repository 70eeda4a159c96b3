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
LEFT JOIN (
  SELECT
    namesrv_id,
    day,
    event_id,
    cluster_name,
    broker_name,
    broker_addr,
    broker_id,
    topic,
    channel_id,
    detail,
    source_file,
    source_offset
  FROM events
  WHERE
    NOT kind IN ('broker_heartbeat', 'query_data_version')
  UNION ALL
  /* Beats are by far the most, and each id of one must be made: they are read on those days that tell of one. */
  SELECT
    b.namesrv_id,
    b.day,
    b.event_id,
    b.cluster_name,
    b.broker_name,
    b.broker_addr,
    b.broker_id,
    NULL,
    b.channel_id,
    NULL,
    b.source_file,
    b.source_offset
  FROM (
    SELECT
      namesrv_id,
      day,
      event_id
    FROM event_outcomes
    WHERE
      operation IN ('broker_heartbeat', 'query_data_version')
  ) AS s
  JOIN heartbeats AS b
    ON b.namesrv_id = s.namesrv_id AND b.day = s.day AND b.event_id = s.event_id
) AS e
  ON e.namesrv_id = o.namesrv_id AND e.day = o.day AND e.event_id = o.event_id
) AS made(namesrv_id, day, seq, event_id, effect_time, operation, outcome, cluster_name, broker_name, broker_addr, broker_id, brokers_gone, topic, channel_id, detail, source_file, source_offset)

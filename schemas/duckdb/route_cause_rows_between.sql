CREATE OR REPLACE TEMPORARY MACRO route_cause_rows_between(_t1, _t2) AS TABLE
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.part,
  r.topic,
  r.broker_name,
  r.event.event_id,
  r.event.effect_time,
  r.event.position
FROM (
  SELECT
    s.namesrv_id,
    s.part,
    s.topic,
    s.broker_name,
    UNNEST(
      [
        {'event_id': s.opened_by, 'effect_time': s.valid_from, 'position': s.opened_at},
        {'event_id': s.closed_by, 'effect_time': s.valid_to, 'position': s.closed_at}
      ]
    ) AS event
  FROM (
    SELECT
      namesrv_id,
      day,
      'queues' AS part,
      topic,
      broker_name,
      opened_by,
      valid_from,
      opened_at,
      closed_by,
      valid_to,
      closed_at
    FROM topic_queue_history_slices
    UNION ALL
    SELECT
      namesrv_id,
      day,
      'addresses',
      NULL,
      broker_name,
      opened_by,
      valid_from,
      opened_at,
      closed_by,
      valid_to,
      closed_at
    FROM broker_addr_history_slices
    UNION ALL
    SELECT
      namesrv_id,
      day,
      'order_topic_conf',
      config_key,
      NULL,
      opened_by,
      valid_from,
      opened_at,
      closed_by,
      valid_to,
      closed_at
    FROM kv_config_history_slices
    WHERE
      namespace = 'ORDER_TOPIC_CONFIG'
  ) AS s
  /* the slice of a day has what was opened and what was closed on it */
  WHERE
    s.day >= TRY_CAST(CAST(_t1 AS TIMESTAMPTZ) AS DATE)
    AND s.day <= TRY_CAST(CAST(_t2 AS TIMESTAMPTZ) AS DATE)
) AS r
WHERE
  NOT r.event.event_id IS NULL
  AND r.event.effect_time > CAST(_t1 AS TIMESTAMPTZ)
  AND r.event.effect_time <= CAST(_t2 AS TIMESTAMPTZ)
) AS made(namesrv_id, part, topic, broker_name, event_id, effect_time, position)

CREATE OR REPLACE TEMPORARY MACRO routes_rows_at(_t) AS TABLE
SELECT * FROM (
SELECT
  q.namesrv_id,
  q.topic,
  g.cluster_name,
  q.broker_name,
  g.broker_addrs,
  q.read_queue_nums,
  q.write_queue_nums,
  CASE WHEN q.perm & 4 <> 0 THEN 'R' ELSE '-' END || CASE WHEN q.perm & 2 <> 0 THEN 'W' ELSE '-' END || CASE WHEN q.perm & 1 <> 0 THEN 'X' ELSE '-' END,
  q.perm,
  q.topic_sys_flag,
  CASE WHEN s.is_served THEN s.confs[COALESCE('=' || q.topic, '')] ELSE NULL END,
  s.confs[COALESCE('=' || q.topic, '')],
  q.opened_by,
  q.known AND g.known,
  q.coverage
FROM TOPIC_QUEUE_ROWS_AT(CAST(_t AS TIMESTAMPTZ)) AS q
/* queue data exist only for names that have a group */
JOIN (
  SELECT
    namesrv_id,
    broker_name,
    MIN(cluster_name) AS cluster_name,
    MAP_FROM_ENTRIES(
      LIST_SORT(
        COALESCE(
          ARRAY_AGG({'broker_id': broker_id, 'broker_addr': broker_addr}) FILTER(WHERE
            NOT broker_id IS NULL
            AND NOT {'broker_id': broker_id, 'broker_addr': broker_addr} IS NULL),
          []
        ),
        'ASC',
        'NULLS FIRST'
      )
    ) AS broker_addrs, /* a group without members (broker_id NULL) gives an empty map */
    MIN(known) AS known
  FROM BROKER_ADDR_ROWS_AT(CAST(_t AS TIMESTAMPTZ))
  GROUP BY
    namesrv_id,
    broker_name
) AS g
  ON g.namesrv_id = q.namesrv_id AND g.broker_name IS NOT DISTINCT FROM q.broker_name
/* one row for each name server, with or without order confs: Spark refuses outer joins with rows that depend on t */
JOIN (
  SELECT
    r.namesrv_id,
    MAX(is_served) AS is_served,
    MAP_FROM_ENTRIES(
      COALESCE(
        ARRAY_AGG({'conf_key': conf_key, 'config_value': config_value}) FILTER(WHERE
          NOT conf_key IS NULL
          AND NOT {'conf_key': conf_key, 'config_value': config_value} IS NULL),
        []
      )
    ) AS confs /* a key may be null, but not in a map */
  FROM (
    SELECT
      namesrv_id,
      day,
      from_time AS valid_from,
      until AS valid_to,
      FALSE AS is_served,
      CAST(NULL AS TEXT) AS conf_key,
      CAST(NULL AS TEXT) AS config_value
    FROM slice_days
    UNION ALL
    SELECT
      namesrv_id,
      day,
      valid_from,
      valid_to,
      FALSE,
      COALESCE('=' || config_key, ''),
      config_value
    FROM kv_config_history_slices
    WHERE
      namespace = 'ORDER_TOPIC_CONFIG'
    UNION ALL
    SELECT
      namesrv_id,
      day,
      valid_from,
      valid_to,
      value = 'true',
      CAST(NULL AS TEXT),
      CAST(NULL AS TEXT)
    FROM namesrv_settings
    WHERE
      setting = 'order_message_enable'
  ) AS r
  JOIN slice_days AS slice
    ON slice.namesrv_id = r.namesrv_id AND slice.day = r.day
  WHERE
    ARRAY_CONTAINS(DAYS_IN_FORCE(CAST(_t AS TIMESTAMPTZ)), r.day)
    AND slice.from_time <= CAST(_t AS TIMESTAMPTZ)
    AND slice.until > CAST(_t AS TIMESTAMPTZ)
    AND (
      r.valid_from IS NULL OR r.valid_from <= CAST(_t AS TIMESTAMPTZ)
    )
    AND (
      r.valid_to IS NULL OR r.valid_to > CAST(_t AS TIMESTAMPTZ)
    )
  GROUP BY
    r.namesrv_id
) AS s
  ON s.namesrv_id = q.namesrv_id
) AS made(namesrv_id, topic, cluster_name, broker_name, broker_addrs, read_queue_nums, write_queue_nums, perm, perm_bits, topic_sys_flag, order_topic_conf, order_topic_conf_stored, queues_opened_by, known, coverage)

CREATE OR REPLACE TEMPORARY VIEW registry_rows AS
SELECT * FROM (
SELECT
  namesrv_id,
  'topicQueueTable',
  CONCAT_WS(' ', topic, broker_name),
  'read ' || read_queue_nums || ' write ' || write_queue_nums || ' perm ' || perm || ' flag ' || topic_sys_flag,
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM topic_queue_history
UNION ALL
SELECT
  namesrv_id,
  'brokerAddrTable',
  CONCAT_WS(' ', broker_name, CAST(broker_id AS TEXT)),
  CONCAT_WS(
    ' ',
    COALESCE(broker_addr, 'no member'),
    cluster_name,
    zone_name,
    CASE WHEN enable_acting_master THEN 'acting' ELSE NULL END
  ),
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM broker_addr_history
UNION ALL
SELECT
  namesrv_id,
  'clusterAddrTable',
  CONCAT_WS(' ', cluster_name, broker_name),
  'in the set',
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM cluster_addr_history
UNION ALL
SELECT
  namesrv_id,
  'brokerLiveTable',
  CONCAT_WS(' ', cluster_name, broker_addr),
  CONCAT_WS(
    ' ',
    'lease',
    CAST(heartbeat_timeout_ms AS TEXT),
    'version',
    CONCAT_WS(
      '/',
      CAST(data_version.state_version AS TEXT),
      CAST(data_version.timestamp AS TEXT),
      CAST(data_version.counter AS TEXT)
    ),
    'channel',
    channel_id,
    'ha',
    ha_server_addr
  ),
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM broker_live_history
UNION ALL
SELECT
  namesrv_id,
  'filterServerTable',
  CONCAT_WS(' ', cluster_name, broker_addr),
  ARRAY_TO_STRING(filter_servers, ', '),
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM filter_server_history
UNION ALL
SELECT
  namesrv_id,
  'kvConfigTable',
  CONCAT_WS(' ', namespace, config_key),
  COALESCE(config_value, ''),
  valid_from,
  valid_to,
  opened_by,
  closed_by
FROM kv_config_history
) AS made(namesrv_id, table_name, row_key, value, valid_from, valid_to, opened_by, closed_by)

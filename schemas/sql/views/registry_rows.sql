-- All tables of the name servers as text: one row for each interval of a table row
-- columns: namesrv_id
-- column table_name: Table of the name server, as RocketMQ spells it
-- column row_key: Key of the row
-- column value: Value of the row
-- column valid_from: Start of the interval, inclusive
-- column valid_to: End of the interval, exclusive; NULL = open
-- column opened_by: event_id that opened it
-- column closed_by: event_id that closed it
SELECT
    namesrv_id, 'topicQueueTable', concat_ws(' ', topic, broker_name),
    concat('read ', read_queue_nums, ' write ', write_queue_nums, ' perm ', perm, ' flag ', topic_sys_flag),
    valid_from, valid_to, opened_by, closed_by
FROM topic_queue_history
UNION ALL
SELECT
    namesrv_id, 'brokerAddrTable', concat_ws(' ', broker_name, CAST(broker_id AS STRING)),
    concat_ws(' ', coalesce(broker_addr, 'no member'), cluster_name, zone_name, IF(enable_acting_master, 'acting', NULL)),
    valid_from, valid_to, opened_by, closed_by
FROM broker_addr_history
UNION ALL
SELECT
    namesrv_id, 'clusterAddrTable', concat_ws(' ', cluster_name, broker_name), 'in the set',
    valid_from, valid_to, opened_by, closed_by
FROM cluster_addr_history
UNION ALL
SELECT
    namesrv_id, 'brokerLiveTable', concat_ws(' ', cluster_name, broker_addr),
    concat_ws(
        ' ', 'lease', CAST(heartbeat_timeout_ms AS STRING), 'version',
        concat_ws('/', CAST(data_version.state_version AS STRING), CAST(data_version.timestamp AS STRING),
            CAST(data_version.counter AS STRING)),
        'channel', channel_id, 'ha', ha_server_addr
    ),
    valid_from, valid_to, opened_by, closed_by
FROM broker_live_history
UNION ALL
SELECT
    namesrv_id, 'filterServerTable', concat_ws(' ', cluster_name, broker_addr), array_join(filter_servers, ', '),
    valid_from, valid_to, opened_by, closed_by
FROM filter_server_history
UNION ALL
SELECT
    namesrv_id, 'kvConfigTable', concat_ws(' ', namespace, config_key), coalesce(config_value, ''),
    valid_from, valid_to, opened_by, closed_by
FROM kv_config_history

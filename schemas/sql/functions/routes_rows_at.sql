-- The routes of all topics at t, without rows for routes that may be missing
-- parameter t TIMESTAMP: Instant
-- columns: namesrv_id, topic
{route_columns()}
-- column queues_opened_by STRING: event_id that set the queues and the permission
-- columns: known, coverage
SELECT
    q.namesrv_id, q.topic, g.cluster_name, q.broker_name,
    IF(s.is_acting AND q.perm & 2 = 0 AND NOT startswith(coalesce(q.topic, ''), 'rmq_sys_SYNC_BROKER_MEMBER_'), g.acting_addrs, g.broker_addrs),
    q.read_queue_nums, q.write_queue_nums,
    concat(IF(q.perm & 4 <> 0, 'R', '-'), IF(q.perm & 2 <> 0, 'W', '-'), IF(q.perm & 1 <> 0, 'X', '-')),
    q.perm, q.topic_sys_flag,
    IF(s.is_served, s.confs[coalesce(concat('=', q.topic), '')], NULL), s.confs[coalesce(concat('=', q.topic), '')],
    q.opened_by,
    q.known AND g.known, q.coverage
FROM topic_queue_rows_at(routes_rows_at.t) AS q
-- queue data exist only for names that have a group
JOIN (
    SELECT
        namesrv_id, broker_name, min(cluster_name) AS cluster_name,
        -- a group without members (broker_id NULL) gives an empty map
        map_from_entries(sort_array(
            collect_list(struct(broker_id, broker_addr)) FILTER (WHERE broker_id IS NOT NULL)
        )) AS broker_addrs,
        map_from_entries(sort_array(
            collect_list(struct(shown_id, broker_addr)) FILTER (WHERE broker_id IS NOT NULL)
        )) AS acting_addrs,
        min(known) AS known
    FROM (
        SELECT
            *,
            -- without a master, the smallest id may act as one
            IF(
                enable_acting_master AND broker_id = min(broker_id) OVER of AND count_if(broker_id = 0) OVER of = 0, 0, broker_id
            ) AS shown_id
        FROM broker_addr_rows_at(routes_rows_at.t)
        WINDOW of AS (PARTITION BY namesrv_id, broker_name)
    )
    GROUP BY namesrv_id, broker_name
) AS g ON g.namesrv_id = q.namesrv_id AND g.broker_name <=> q.broker_name
-- one row for each name server, with or without order confs, because Spark refuses outer joins with rows that depend on t
JOIN (
    SELECT
        r.namesrv_id,
        -- of a setting, the value of the last day up to t counts
        max_by(r.is_on, r.day) FILTER (WHERE r.setting = 'order_message_enable') AS is_served,
        max_by(r.is_on, r.day) FILTER (WHERE r.setting = 'support_acting_master') AS is_acting,
        -- a key may be null, but not in a map
        map_from_entries(collect_list(struct(conf_key, config_value)) FILTER (WHERE conf_key IS NOT NULL)) AS confs
    FROM (
        SELECT
            namesrv_id, CAST(NULL AS DATE) AS day, CAST(NULL AS TIMESTAMP) AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to,
            CAST(NULL AS STRING) AS setting, CAST(NULL AS BOOLEAN) AS is_on,
            CAST(NULL AS STRING) AS conf_key, CAST(NULL AS STRING) AS config_value
        FROM coverage
        UNION ALL
        SELECT namesrv_id, CAST(NULL AS DATE), valid_from, valid_to, NULL, NULL, coalesce(concat('=', config_key), ''), config_value
        FROM kv_config_history
        WHERE namespace = 'ORDER_TOPIC_CONFIG'
        UNION ALL
        SELECT namesrv_id, day, valid_from, valid_to, setting, value = 'true', CAST(NULL AS STRING), CAST(NULL AS STRING)
        FROM namesrv_settings
        WHERE setting IN ('order_message_enable', 'support_acting_master') AND day <= to_date(routes_rows_at.t)
    ) AS r
    WHERE (r.valid_from IS NULL OR r.valid_from <= routes_rows_at.t) AND (r.valid_to IS NULL OR r.valid_to > routes_rows_at.t)
    GROUP BY r.namesrv_id
) AS s ON s.namesrv_id = q.namesrv_id

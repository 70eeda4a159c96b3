-- Differences between the routes at t1 and at t2, on every name server
-- parameter t1 TIMESTAMP: First instant
-- parameter t2 TIMESTAMP: Second instant, later
-- columns: namesrv_id, topic, broker_name
-- column what STRING: appeared, vanished, queues (numbers, permission, flags), addresses, order_topic_conf; not known: not a difference, coverage says what is not known
-- column before STRING: Value at t1
-- column after STRING: Value at t2
-- column caused_by STRING: Last event in (t1, t2] that changed it
-- column known BOOLEAN: FALSE: one of the instants is not known in full, or not recorded, so the difference is only believed
-- column coverage STRING: What is known of the name server at both instants: in full, in part, or not recorded
WITH covered AS (
    SELECT * FROM coverage_between(route_diff.t1, route_diff.t2)
)
SELECT n.namesrv_id, n.nothing, n.nothing, 'not known', n.nothing, n.nothing, n.nothing, n.known, n.coverage
FROM covered AS n
WHERE NOT n.known
UNION ALL
SELECT
    d.namesrv_id, d.topic, d.broker_name, d.what, d.before, d.after,
    coalesce(max_by(c.event_id, c.position) FILTER (WHERE c.of_group), max_by(c.event_id, c.position)), max(c.known),
    max(c.coverage)
FROM (
    SELECT
        namesrv_id, topic, broker_name, part,
        CASE
            WHEN part <> 'queues' THEN part
            WHEN max(before) IS NULL THEN 'appeared'
            WHEN max(after) IS NULL THEN 'vanished'
            ELSE part
        END AS what,
        max(before) AS before, max(after) AS after
    FROM (
        SELECT namesrv_id, topic, broker_name, x.part, IF(is_before, x.text, NULL) AS before, IF(is_before, NULL, x.text) AS after
        FROM (
            SELECT
                r.namesrv_id, r.topic, r.broker_name, r.is_before,
                explode(array(
                    struct(
                        'queues' AS part,
                        concat(
                            r.perm, ' read ', r.read_queue_nums, ' write ', r.write_queue_nums,
                            IF(r.topic_sys_flag = 0, '', concat(' flag ', r.topic_sys_flag))
                        ) AS text
                    ),
                    struct(
                        'addresses' AS part,
                        coalesce(
                            array_join(transform(map_entries(r.broker_addrs), e -> concat(e.key, '=', e.value)), ', '),
                            'no group'
                        ) AS text
                    ),
                    struct('order_topic_conf' AS part, coalesce(r.order_topic_conf, '') AS text)
                )) AS x
            FROM (
                SELECT *, TRUE AS is_before FROM routes_rows_at(route_diff.t1)
                UNION ALL
                SELECT *, FALSE FROM routes_rows_at(route_diff.t2)
            ) AS r
        )
    )
    GROUP BY namesrv_id, topic, broker_name, part
    HAVING NOT max(before) <=> max(after)
        -- where queues appeared or vanished, their addresses and order conf are no change of their own
        AND (part = 'queues' OR (max(before) IS NOT NULL AND max(after) IS NOT NULL))
) AS d
-- each part has a row that says what is known, because Spark refuses outer joins with rows that depend on t1
JOIN (
    SELECT
        r.namesrv_id, r.part, r.of_group, r.topic, r.broker_name, r.event.event_id,
        r.event.position, CAST(NULL AS BOOLEAN) AS known,
        CAST(NULL AS STRING) AS coverage
    FROM (
        SELECT
            s.namesrv_id, s.part, s.of_group, s.topic, s.broker_name,
            explode(array(
                struct(s.opened_by AS event_id, s.valid_from AS effect_time, s.opened_at AS position),
                struct(s.closed_by AS event_id, s.valid_to AS effect_time, s.closed_at AS position)
            )) AS event
        FROM (
            -- with the permission to write, a slave may come to act as master, or cease to
            SELECT
                namesrv_id, explode(array('queues', 'addresses')) AS part, FALSE AS of_group, topic, broker_name, opened_by,
                valid_from, opened_at, closed_by, valid_to, closed_at
            FROM topic_queue_history
            UNION ALL
            SELECT
                namesrv_id, 'addresses', TRUE, NULL, broker_name, opened_by, valid_from, opened_at, closed_by, valid_to,
                closed_at
            FROM broker_addr_history
            UNION ALL
            SELECT
                namesrv_id, 'order_topic_conf', FALSE, config_key, NULL, opened_by, valid_from, opened_at, closed_by, valid_to,
                closed_at
            FROM kv_config_history
            WHERE namespace = 'ORDER_TOPIC_CONFIG'
        ) AS s
    ) AS r
    WHERE r.event.event_id IS NOT NULL AND r.event.effect_time > route_diff.t1 AND r.event.effect_time <= route_diff.t2
    UNION ALL
    SELECT
        namesrv_id, explode(array('queues', 'addresses', 'order_topic_conf')), FALSE, nothing, nothing, nothing, NULL, known,
        coverage
    FROM covered
    WHERE is_covered
) AS c
    ON c.namesrv_id = d.namesrv_id AND c.part = d.part
    AND (c.event_id IS NULL OR (
        (c.of_group OR c.topic <=> d.topic) AND (c.part = 'order_topic_conf' OR c.broker_name <=> d.broker_name)
    ))
GROUP BY d.namesrv_id, d.topic, d.broker_name, d.what, d.before, d.after
HAVING max(c.coverage) IS NOT NULL

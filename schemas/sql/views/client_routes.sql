-- Every route that clients were answered with, and the queues that a client of the same generation makes of it
-- columns: namesrv_id, topic
-- column seq: Position of the event that changed the route
-- column effect_time: When it changed
-- columns: day
-- column caused_by: event_id that changed it
-- column ordered: Producers go by the order conf
-- column publish: How many queues of which broker name producers take, in their order; NULL: clients cannot read the route
-- column subscribe: The same for consumers
-- column groups: The groups of the route
-- column mappings: Mappings of a static topic (5.x) under the broker name that its message queues have; else empty
WITH answers AS (
    SELECT
        namesrv_id, topic, seq, effect_time, day, caused_by,
        -- under the name server's settings: no order conf without orderMessageEnable
        from_json(
            route_after,
            'orderTopicConf STRING,
            queueDatas ARRAY<STRUCT<brokerName: STRING, perm: INT, readQueueNums: INT, writeQueueNums: INT>>,
            brokerDatas ARRAY<STRUCT<brokerName: STRING, cluster: STRING, brokerAddrs: MAP<STRING, STRING>>>,
            topicQueueMappingByBroker MAP<STRING, STRUCT<
                scope: STRING, bname: STRING, epoch: BIGINT, totalQueues: INT, currIdMap: MAP<STRING, INT>
            >>'
        ) AS route
    FROM whole_routes
), parts AS (
    SELECT
        *,
        -- as Java splits: without the empty parts at the end
        transform(
            filter(split(regexp_replace(route.orderTopicConf, r';+\z', ''), ';'), e -> route.orderTopicConf NOT RLIKE r'^;*\z'),
            e -> struct(
                split_part(e, ':', 1) AS broker_name,
                IF(split_part(e, ':', 2) RLIKE r'^[+-]?[0-9]+\z', try_cast(split_part(e, ':', 2) AS INT), NULL) AS queues
            )
        ) AS order_conf,
        coalesce(transform(
            map_values(route.topicQueueMappingByBroker),
            m -> struct(
                concat('__syslo__', regexp_replace(coalesce(m.scope, '__global__'), r'^__global__\z', 'global__')) AS broker_name,
                m.totalQueues AS queues, m.epoch, m.bname, m.currIdMap
            )
        ), array()) AS mappings,
        -- sorted as Java compares strings, by UTF-16: what lies between U+E000 and U+FFFF comes last
        transform(
            array_sort(transform(
                route.queueDatas,
                q -> struct(
                    regexp_replace(q.brokerName, r'([\x{E000}-\x{FFFF}])', concat(decode(unhex('F48FBFBF'), 'UTF-8'), '$1')) AS place, q AS queue_data
                )
            )),
            s -> s.queue_data
        ) AS queue_datas
    FROM answers
), ranges AS (
    SELECT
        *,
        transform(
            array_sort(array_distinct(transform(mappings, m -> m.broker_name))),
            name -> struct(name AS broker_name, array_max(transform(filter(mappings, m -> m.broker_name = name), m -> m.queues)) AS queues)
        ) AS static
    FROM parts
)
SELECT
    namesrv_id, topic, seq, effect_time, day, caused_by, coalesce(route.orderTopicConf <> '', false),
    CASE
        WHEN size(filter(queue_datas, q -> q.brokerName IS NULL)) > 0 THEN NULL
        WHEN route.orderTopicConf <> '' THEN IF(size(filter(order_conf, e -> e.queues IS NULL)) > 0, NULL, order_conf)
        WHEN route.orderTopicConf IS NULL AND size(static) > 0 THEN static
        ELSE transform(
            filter(queue_datas, q -> q.perm & 2 <> 0 AND size(filter(
                route.brokerDatas, b -> b.brokerName = q.brokerName AND map_contains_key(b.brokerAddrs, '0')
            )) > 0),
            q -> struct(q.brokerName AS broker_name, q.writeQueueNums AS queues)
        )
    END,
    CASE
        WHEN size(filter(queue_datas, q -> q.brokerName IS NULL)) > 0 THEN NULL
        WHEN size(static) > 0 THEN static
        ELSE transform(
            filter(queue_datas, q -> q.perm & 4 <> 0),
            q -> struct(q.brokerName AS broker_name, q.readQueueNums AS queues)
        )
    END,
    route.brokerDatas, mappings
FROM ranges

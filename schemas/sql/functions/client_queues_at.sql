-- The message queues of a topic at t as clients see them, at most 65536 of a broker name
-- parameters: topic
-- parameter t TIMESTAMP: Instant; a change at t itself has already happened
-- column side STRING: publish or subscribe; NULL: no queue, it says that others may be missing
-- columns: namesrv_id
-- column position INT: Place in the client's list, from 0
-- column broker_name STRING: Broker name of the message queue
-- column queue_id INT: Queue id of the message queue
-- column ordered BOOLEAN: Producers go by the order conf
-- column served_by STRING: Broker name that holds the queue
-- column cluster_name STRING: Cluster of that broker
-- column broker_addrs MAP<BIGINT, STRING>: Its addresses by broker id, 0 = master
-- column since TIMESTAMP: Since when the route has been so
-- column caused_by STRING: event_id that made it so
-- column known BOOLEAN: FALSE: the name server is not known in full at t: the row is only believed, and others may be missing
-- columns: coverage
SELECT
    q.side, q.namesrv_id, q.position, q.queue.broker_name, q.queue.queue_id, q.ordered, q.served_by,
    get(filter(q.groups, g -> g.brokerName = q.served_by), 0).cluster,
    map_from_entries(transform(
        map_entries(get(filter(q.groups, g -> g.brokerName = q.served_by), 0).brokerAddrs),
        e -> struct(CAST(e.key AS BIGINT), e.value)
    )),
    q.since, q.caused_by, q.known, q.coverage
FROM (
    SELECT
        p.*,
        -- of several brokers that claim a queue, the one with the highest epoch holds it
        CASE WHEN size(filter(p.mappings, m -> m.broker_name = p.queue.broker_name)) > 0
            THEN coalesce(
                array_max(transform(
                    filter(p.mappings, m -> m.broker_name = p.queue.broker_name
                        AND map_contains_key(m.currIdMap, CAST(p.queue.queue_id AS STRING))),
                    m -> struct(m.epoch, m.bname)
                )).bname,
                '__syslo__none__'
            )
            ELSE p.queue.broker_name
        END AS served_by
    FROM (
        SELECT
            s.side, s.namesrv_id, s.ordered, s.groups, s.mappings, s.since, s.caused_by, s.known, s.coverage,
            posexplode(s.queues) AS (position, queue)
        FROM (
            SELECT
                side.side, n.namesrv_id, n.last.ordered, n.last.groups, n.last.mappings,
                IF(side.side IS NULL, NULL, n.last.effect_time) AS since,
                IF(side.side IS NULL, NULL, n.last.caused_by) AS caused_by, n.known, n.coverage,
                IF(
                    side.side IS NULL,
                    array(struct(CAST(NULL AS INT) AS queue_id, CAST(NULL AS STRING) AS broker_name)),
                    flatten(transform(side.ranges, r -> transform(
                        filter(sequence(0, least(greatest(r.queues, 0), 65535)), id -> id < r.queues),
                        id -> struct(id AS queue_id, r.broker_name AS broker_name)
                    )))
                ) AS queues
            FROM (
                SELECT c.namesrv_id, c.known, c.coverage, max_by(struct(r.*), r.seq) AS last
                FROM (
                    SELECT
                        namesrv_id, is_covered, known, coverage, client_queues_at.topic AS topic, client_queues_at.t AS t
                    FROM coverage_at(client_queues_at.t)
                ) AS c
                LEFT JOIN client_routes AS r
                    ON r.namesrv_id = c.namesrv_id AND r.topic = c.topic AND r.effect_time <= c.t AND c.is_covered
                GROUP BY c.namesrv_id, c.known, c.coverage
            ) AS n
            -- of a name server that is not known in full, one row more, of no side
            LATERAL VIEW explode(filter(
                array(
                    struct('publish' AS side, n.last.publish AS ranges),
                    struct('subscribe' AS side, n.last.subscribe AS ranges),
                    struct(CAST(NULL AS STRING) AS side, n.last.subscribe AS ranges)
                ),
                e -> e.side IS NOT NULL OR NOT n.known
            )) AS side
        ) AS s
    ) AS p
) AS q

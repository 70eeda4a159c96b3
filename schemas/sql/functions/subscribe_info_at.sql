CREATE OR REPLACE TEMPORARY FUNCTION subscribe_info_at(
    topic STRING COMMENT 'Topic',
    t TIMESTAMP COMMENT 'Instant; a change at t itself has already happened'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    position INT COMMENT 'Place in the sorted list that the consumers of a group divide among themselves, from 0',
    broker_name STRING COMMENT 'Broker name of the message queue; of a static topic (5.x) that of its scope',
    queue_id INT COMMENT 'Queue id of the message queue',
    served_by STRING COMMENT 'Broker name that holds the queue: another than broker_name for a static topic only',
    cluster_name STRING COMMENT 'Cluster of that broker; NULL: the route has no such group',
    master_addr STRING COMMENT 'Address of its master; NULL: it has none',
    pull_addr STRING COMMENT 'Where a consumer starts reading: the master, else the smallest id; NULL: nowhere',
    since TIMESTAMP COMMENT 'Since when the route has been so',
    caused_by STRING COMMENT 'event_id that made it so; NULL: no queue, it says that others may be missing',
    known BOOLEAN COMMENT 'FALSE: the name server is not known in full at t: the row is only believed, and others may be missing',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'The message queues that consumers who asked that name server at t read from; no row: none'
RETURN
    SELECT
        q.namesrv_id, q.position, q.broker_name, q.queue_id, q.served_by, q.cluster_name, try_element_at(q.broker_addrs, 0L),
        try_element_at(q.broker_addrs, array_min(map_keys(q.broker_addrs))),
        q.since, q.caused_by, q.known, q.coverage
    FROM client_queues_at(subscribe_info_at.topic, subscribe_info_at.t) AS q
    WHERE q.side = 'subscribe' OR q.side IS NULL

-- The message queues that consumers who asked that name server at t read from; no row: none
-- parameters: topic
-- parameter t TIMESTAMP: Instant; a change at t itself has already happened
-- columns: namesrv_id
-- column position INT: Place in the sorted list that the consumers of a group divide among themselves, from 0
-- column broker_name STRING: Broker name of the message queue; of a static topic (5.x) that of its scope
-- column queue_id INT: Queue id of the message queue
-- column served_by STRING: Broker name that holds the queue: another than broker_name for a static topic only
-- column cluster_name STRING: Cluster of that broker; NULL: the route has no such group
-- column master_addr STRING: Address of its master; NULL: it has none
-- column pull_addr STRING: Where a consumer starts reading: the master, else the smallest id; NULL: nowhere
-- column since TIMESTAMP: Since when the route has been so
-- column caused_by STRING: event_id that made it so; NULL: no queue, it says that others may be missing
-- column known BOOLEAN: FALSE: the name server is not known in full at t: the row is only believed, and others may be missing
-- columns: coverage
SELECT
    q.namesrv_id, q.position, q.broker_name, q.queue_id, q.served_by, q.cluster_name, try_element_at(q.broker_addrs, 0L),
    try_element_at(q.broker_addrs, array_min(map_keys(q.broker_addrs))),
    q.since, q.caused_by, q.known, q.coverage
FROM client_queues_at(subscribe_info_at.topic, subscribe_info_at.t) AS q
WHERE q.side = 'subscribe' OR q.side IS NULL

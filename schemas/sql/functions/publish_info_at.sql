CREATE OR REPLACE TEMPORARY FUNCTION publish_info_at(
    topic STRING COMMENT 'Topic',
    t TIMESTAMP COMMENT 'Instant; a change at t itself has already happened'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    position INT COMMENT 'Place in the list that a producer takes in turn, from 0',
    broker_name STRING COMMENT 'Broker name of the message queue; of a static topic (5.x) that of its scope',
    queue_id INT COMMENT 'Queue id of the message queue',
    ordered BOOLEAN COMMENT 'The list is that of the order conf, whether its queues exist or not',
    served_by STRING COMMENT 'Broker name that holds the queue: another than broker_name for a static topic only',
    cluster_name STRING COMMENT 'Cluster of that broker; NULL: the route has no such group',
    master_addr STRING COMMENT 'Where messages go; NULL: sending to this queue fails',
    since TIMESTAMP COMMENT 'Since when the route has been so',
    caused_by STRING COMMENT 'event_id that made it so; NULL: no queue, it says that others may be missing',
    known BOOLEAN COMMENT 'FALSE: the name server is not known in full at t: the row is only believed, and others may be missing',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'The message queues that producers who asked that name server at t send to, in their order; no row: none, or an order conf that clients cannot read'
RETURN
    SELECT
        q.namesrv_id, q.position, q.broker_name, q.queue_id, q.ordered, q.served_by, q.cluster_name, try_element_at(q.broker_addrs, 0L),
        q.since, q.caused_by, q.known, q.coverage
    FROM client_queues_at(publish_info_at.topic, publish_info_at.t) AS q
    WHERE q.side = 'publish' OR q.side IS NULL

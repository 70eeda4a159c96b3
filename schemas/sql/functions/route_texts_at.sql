CREATE OR REPLACE TEMPORARY FUNCTION route_texts_at(
    t TIMESTAMP COMMENT 'Instant; intervals are half open: what begins at t is in, what ends at t is out'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    topic STRING COMMENT 'Topic',
    broker_name STRING COMMENT 'Broker name',
    part STRING COMMENT 'queues, addresses or order_topic_conf; NULL: no route, it says that others may be missing',
    text STRING COMMENT 'That part as text',
    known BOOLEAN COMMENT 'FALSE: the row is only believed',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'The routes of all topics at t as comparable text'
RETURN
    SELECT c.namesrv_id, c.nothing, c.nothing, c.nothing, c.nothing, c.known, c.coverage
    FROM coverage_at(route_texts_at.t) AS c
    WHERE NOT c.known
    UNION ALL
    SELECT r.namesrv_id, r.topic, r.broker_name, r.part, r.text, r.known, r.coverage
    FROM route_text_rows_at(route_texts_at.t) AS r

CREATE OR REPLACE TEMPORARY FUNCTION why(
    topic STRING COMMENT 'Topic',
    t TIMESTAMP COMMENT 'Instant; a change at t itself has already happened'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    state STRING COMMENT 'routed, vanished, not yet seen (its first route comes after t), never seen; not known, not recorded: see coverage',
    changed_time TIMESTAMP COMMENT 'Last change of the route at or before t',
    change STRING COMMENT 'appeared, changed, vanished or learned',
    caused_by STRING COMMENT 'event_id of that change',
    operation STRING COMMENT 'What the event was: register_broker, scan, channel_close ...',
    outcome STRING COMMENT 'What became of it',
    cluster_name STRING COMMENT 'Cluster in the event',
    broker_name STRING COMMENT 'Broker in the event; of a close or scan the first that went with it',
    broker_addr STRING COMMENT 'Broker address in the event',
    channel_id STRING COMMENT 'Connection of the event',
    detail STRING COMMENT 'Reason or count',
    source_file STRING COMMENT 'File in which the event is recorded; NULL for a scan, which nobody records',
    source_offset BIGINT COMMENT 'Packet or line number in that file',
    route_before STRING COMMENT 'Route before that change as JSON',
    route STRING COMMENT 'Route at t as JSON; NULL if there is none',
    next_time TIMESTAMP COMMENT 'First change after t; NULL if none is known',
    next_change STRING COMMENT 'appeared, changed, vanished or learned',
    next_caused_by STRING COMMENT 'event_id of that change',
    next_operation STRING COMMENT 'What that event was',
    known BOOLEAN COMMENT 'FALSE: the name server is not known in full at t: the row is only believed, and there may have been another',
    coverage STRING COMMENT 'What is known of the name server at t: in full, in part, or not recorded'
)
COMMENT 'Why a topic was routed, or was not, at t: the last change of its route on every name server, its cause, and the next'
RETURN
    SELECT
        n.namesrv_id,
        CASE
            WHEN NOT n.is_covered THEN 'not recorded'
            WHEN NOT n.recorded THEN 'not known'
            WHEN n.last.change = 'vanished' THEN 'vanished'
            WHEN n.last IS NOT NULL THEN 'routed'
            WHEN NOT n.known THEN 'not known'
            WHEN n.next IS NOT NULL THEN 'not yet seen'
            ELSE 'never seen'
        END,
        n.last.effect_time, n.last.change, n.last.caused_by,
        o.operation, o.outcome, o.cluster_name, o.broker_name, o.broker_addr, o.channel_id, o.detail,
        o.source_file, o.source_offset,
        w.route_before, w.route_after,
        n.next.effect_time, n.next.change, n.next.caused_by, p.operation,
        n.known, n.coverage
    FROM (
        SELECT
            s.namesrv_id, s.topic, s.is_covered, s.recorded, s.known, s.coverage,
            max_by(struct(c.*), c.seq) FILTER (WHERE c.effect_time <= s.t AND s.is_covered) AS last,
            min_by(struct(c.*), c.seq) FILTER (WHERE c.effect_time > s.t) AS next
        FROM (
            SELECT namesrv_id, is_covered, recorded, known, coverage, why.topic AS topic, why.t AS t FROM coverage_at(why.t)
        ) AS s
        LEFT JOIN route_changes AS c ON c.namesrv_id = s.namesrv_id AND c.topic = s.topic
        GROUP BY s.namesrv_id, s.topic, s.is_covered, s.recorded, s.known, s.coverage
    ) AS n
    LEFT JOIN whole_routes AS w ON w.namesrv_id = n.namesrv_id AND w.topic = n.topic AND w.seq = n.last.seq
    LEFT JOIN causes AS o
        ON o.namesrv_id = n.namesrv_id AND o.day = n.last.day AND o.event_id = n.last.caused_by
    LEFT JOIN event_outcomes AS p
        ON p.namesrv_id = n.namesrv_id AND p.day = n.next.day AND p.event_id = n.next.caused_by

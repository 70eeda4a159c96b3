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
        w.namesrv_id, w.state, w.changed_time, w.change, w.caused_by,
        max(u.operation) FILTER (WHERE w.k.is_last), max(u.outcome) FILTER (WHERE w.k.is_last),
        coalesce(max(u.cluster_name) FILTER (WHERE w.k.is_last), max(u.sent_cluster) FILTER (WHERE w.k.is_last)),
        coalesce(max(u.broker_name) FILTER (WHERE w.k.is_last), max(u.sent_name) FILTER (WHERE w.k.is_last)),
        coalesce(max(u.broker_addr) FILTER (WHERE w.k.is_last), max(u.sent_addr) FILTER (WHERE w.k.is_last)),
        coalesce(max(u.channel_id) FILTER (WHERE w.k.is_last), max(u.sent_channel) FILTER (WHERE w.k.is_last)),
        coalesce(max(u.detail) FILTER (WHERE w.k.is_last), max(u.sent_detail) FILTER (WHERE w.k.is_last)),
        max(u.source_file) FILTER (WHERE w.k.is_last), max(u.source_offset) FILTER (WHERE w.k.is_last),
        w.route_before, w.route, w.next_time, w.next_change, w.next_caused_by,
        max(u.operation) FILTER (WHERE NOT w.k.is_last), w.known, w.coverage
    FROM (
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
            END AS state,
            n.last.effect_time AS changed_time, n.last.change AS change, n.last.caused_by AS caused_by,
            IF(coalesce(n.last.groups_before, 0) = 0, NULL, {route_text_before}) AS route_before,
            IF(coalesce(n.last.groups_after, 0) = 0, NULL, {route_text}) AS route,
            n.next.effect_time AS next_time, n.next.change AS next_change, n.next.caused_by AS next_caused_by,
            n.known, n.coverage,
            explode(array(
                struct(TRUE AS is_last, n.last.day AS day, n.last.caused_by AS event_id),
                struct(FALSE AS is_last, n.next.day AS day, n.next.caused_by AS event_id),
                struct(FALSE AS is_last, DATE'1970-01-01' AS day, 'none' AS event_id)
            )) AS k
        FROM (
                SELECT
                    r.namesrv_id, max(r.is_covered) AS is_covered, max(r.recorded) AS recorded, max(r.known) AS known,
                    max(r.coverage) AS coverage, max_by(r.last, r.last.seq) AS last, min_by(r.next, r.next.seq) AS next,
                    array_sort(collect_list(struct(r.part, r.name, r.text)) FILTER (WHERE r.text IS NOT NULL)) AS parts,
                    array_sort(collect_list(struct(r.part, r.name, r.before AS text)) FILTER (WHERE r.before IS NOT NULL)) AS parts_before
                FROM (
                    -- of each part of a route what was told of it last, and before the last change
                    SELECT
                        e.namesrv_id, e.part, coalesce(e.name, '') AS name, max(e.is_covered) AS is_covered, max(e.recorded) AS recorded,
                        max(e.known) AS known, max(e.coverage) AS coverage,
                        max_by(e.change, e.seq) FILTER (WHERE e.is_past) AS last, min_by(e.change, e.seq) FILTER (WHERE NOT e.is_past) AS next,
                        max_by(e.text, e.seq) FILTER (WHERE e.is_past) AS text,
                        max_by(e.text, e.seq) FILTER (WHERE e.seq < e.last_seq) AS before
                    FROM (
                        SELECT
                            x.*, max(IF(x.is_past, x.seq, NULL)) OVER (PARTITION BY x.namesrv_id) AS last_seq
                        FROM (
                            SELECT
                                namesrv_id, is_covered, recorded, known, coverage, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS BOOLEAN) AS is_past,
                                nothing AS part, nothing AS name, nothing AS text, NULL AS change
                            FROM coverage_at(why.t)
                            UNION ALL
                            SELECT
                                c.namesrv_id, NULL, NULL, NULL, NULL, c.seq, c.effect_time <= why.t, c.p.part, c.p.name, c.p.text, c.change
                            FROM (
                                SELECT
                                    namesrv_id, effect_time, seq, explode(parts) AS p,
                                    struct(seq, effect_time, change, caused_by, day, groups_before, groups_after) AS change
                                FROM route_changes
                                WHERE topic = why.topic
                            ) AS c
                        ) AS x
                    ) AS e
                    GROUP BY e.namesrv_id, e.part, coalesce(e.name, '')
                ) AS r
                GROUP BY r.namesrv_id
                HAVING max(r.is_covered) IS NOT NULL
        ) AS n
    ) AS w
    -- One inner join with the few events that are asked for: so they are looked for in the files of their days alone. A row that
    -- is no event's keeps name servers without any.
    JOIN (
        SELECT
            namesrv_id, day, event_id, operation, outcome, cluster_name, broker_name, broker_addr, channel_id, detail,
            CAST(NULL AS STRING) AS sent_cluster, CAST(NULL AS STRING) AS sent_name, CAST(NULL AS STRING) AS sent_addr,
            CAST(NULL AS STRING) AS sent_channel, CAST(NULL AS STRING) AS sent_detail, CAST(NULL AS STRING) AS source_file,
            CAST(NULL AS BIGINT) AS source_offset
        FROM event_outcomes
        UNION ALL
        SELECT
            namesrv_id, day, event_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, cluster_name, broker_name, broker_addr,
            channel_id, detail, source_file, source_offset
        FROM cause_events
        UNION ALL
        SELECT
            namesrv_id, DATE'1970-01-01', 'none', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL
        FROM coverage_at(why.t)
    ) AS u
        ON u.namesrv_id = w.namesrv_id AND u.day = w.k.day AND u.event_id = w.k.event_id
    GROUP BY
        w.namesrv_id, w.state, w.changed_time, w.change, w.caused_by, w.route_before, w.route, w.next_time, w.next_change,
        w.next_caused_by, w.known, w.coverage

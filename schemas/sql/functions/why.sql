-- Why a topic was routed, or was not, at t: the last change of its route on every name server, its cause, and the next change
-- parameters: topic
-- parameter t TIMESTAMP: Instant; a change at t itself has already happened
-- columns: namesrv_id
-- column state STRING: routed, vanished, not yet seen (its first route comes after t), never seen; not known, not recorded: see coverage
-- column changed_time TIMESTAMP: Last change of the route at or before t
-- column change STRING: appeared, changed, vanished or learned
-- column caused_by STRING: event_id of that change
-- column operation STRING: Operation of that event: register_broker, scan, channel_close ...
-- column outcome STRING: Outcome of that event
-- column cluster_name STRING: Cluster in the event
-- column broker_name STRING: Broker name in the event; for a close or scan the first broker that it removed
-- column broker_addr STRING: Broker address in the event, likewise
-- column channel_id STRING: Connection of the event
-- column detail STRING: Reason of a refusal, or a count
-- column source_file STRING: File in which the event is recorded; NULL for a scan, which no recording shows
-- column source_offset BIGINT: Packet or line number in that file
-- column ingest_run STRING: Run that read the file
-- column route_before STRING: Route before that change as JSON
-- column route STRING: Route at t as JSON; NULL if there is none
-- column next_time TIMESTAMP: First change after t; NULL if none is known
-- column next_change STRING: appeared, changed, vanished or learned
-- column next_caused_by STRING: event_id of that change
-- column next_operation STRING: Operation of that event
-- column known BOOLEAN: FALSE: the name server is not known in full at t, so the row is only believed, and there may have been another route
-- columns: coverage
SELECT
    x.namesrv_id, x.answer.state, x.answer.changed_time, x.answer.change, x.answer.caused_by, x.became.operation, x.became.outcome,
    coalesce(x.became.cluster_name, x.sent.cluster_name), coalesce(x.became.broker_name, x.sent.broker_name),
    coalesce(x.became.broker_addr, x.sent.broker_addr), coalesce(x.became.channel_id, x.sent.channel_id),
    coalesce(x.became.detail, x.sent.detail), x.sent.source_file, x.sent.source_offset, x.sent.ingest_run,
    IF(x.answer.has_before, x.answer.routes[0], NULL), IF(x.answer.has_route, x.answer.routes[1], NULL),
    x.answer.next_time, x.answer.next_change, x.answer.next_caused_by, x.next_operation, x.answer.known, x.answer.coverage
FROM (
SELECT
    w.namesrv_id, any_value(w.answer) AS answer, max(u.became) FILTER (WHERE w.k.is_last) AS became,
    max(u.sent) FILTER (WHERE w.k.is_last) AS sent, max(u.became.operation) FILTER (WHERE NOT w.k.is_last) AS next_operation
FROM (
    SELECT
        n.namesrv_id,
        struct(
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
            coalesce(n.last.groups_before, 0) <> 0 AS has_before, coalesce(n.last.groups_after, 0) <> 0 AS has_route,
            transform(array(n.parts_before, n.parts), p -> {route_text(p)}) AS routes,
            n.next.effect_time AS next_time, n.next.change AS next_change, n.next.caused_by AS next_caused_by,
            n.known AS known, n.coverage AS coverage
        ) AS answer,
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
                -- for each part of a route, its text at t and before the last change
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
-- One inner join with the few events needed, so that only the files of their days are read. The row 'none' keeps name servers
-- without such an event.
JOIN (
    SELECT
        namesrv_id, day, event_id, struct(operation, outcome, cluster_name, broker_name, broker_addr, channel_id, detail) AS became,
        NULL AS sent
    FROM event_outcomes
    UNION ALL
    SELECT
        namesrv_id, day, event_id, NULL,
        struct(cluster_name, broker_name, broker_addr, channel_id, detail, source_file, source_offset, ingest_run)
    FROM cause_events
    UNION ALL
    SELECT namesrv_id, DATE'1970-01-01', 'none', NULL, NULL FROM coverage_at(why.t)
) AS u
    ON u.namesrv_id = w.namesrv_id AND u.day = w.k.day AND u.event_id = w.k.event_id
GROUP BY w.namesrv_id
) AS x

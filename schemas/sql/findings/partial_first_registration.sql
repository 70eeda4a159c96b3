-- Brokers that first registered a single topic (5.x refuses such a registration), until they had another one; and brokers that came
-- back, for longer, without topics that their group had when it left, until these are back. Both end when the group leaves again.
-- NS_COLD_START reports what a name server lost when it stopped. If it outlasts its day, the topics that it names are looked for.
-- meaning: a broker registered a single topic (refused, or routed for that topic only), or came back without topics that it had
-- severity: warning
-- threshold: back_within_s
-- remedy: Change a topic on the broker, or restart it, so that it registers all of its topics; check its config/topics.json
WITH members AS (
    FROM broker_addr_history WHERE broker_id IS NOT NULL
),

-- `reach`: until when the group has had a member without a break
reaches AS (
    SELECT
        broker_name, opened_at.seq AS seq,
        max(coalesce(closed_at.seq, 9223372036854775807)) OVER (PARTITION BY broker_name ORDER BY opened_at.seq) AS reach
    FROM members
),

ends AS (
    SELECT DISTINCT m.broker_name, m.closed_at.seq AS seq, m.closed_by, m.valid_to
    FROM (
        FROM members AS m
        ANTI JOIN event_outcomes AS o ON o.event_id = m.closed_by AND o.operation IN ('namesrv_started', 'namesrv_stopped')
        WHERE m.closed_by IS NOT NULL
    ) AS m
    ASOF JOIN reaches AS r ON r.broker_name = m.broker_name AND r.seq <= m.closed_at.seq
    WHERE r.reach <= m.closed_at.seq
),

lost AS (
    SELECT e.broker_name, e.seq, q.topic
    FROM ends AS e
    JOIN topic_queue_history AS q ON q.broker_name = e.broker_name AND q.closed_at.seq = e.seq
    UNION
    SELECT broker_name, epoch_us(removed_time) * 1000, unnest(topics_lost) FROM expired_before WHERE returned_by IS NULL
),

returns AS (
    SELECT
        l.broker_name, l.seq, m.broker_addr, m.opened_at.seq AS back_seq, m.valid_from AS since, m.opened_by AS event_id,
        n.seq AS gone_seq, n.valid_to AS gone_time, n.closed_by AS gone_by
    FROM (SELECT DISTINCT broker_name, seq FROM lost) AS l
    ASOF JOIN members AS m ON m.broker_name = l.broker_name AND m.opened_at.seq > l.seq
    ASOF LEFT JOIN ends AS n ON n.broker_name = l.broker_name AND n.seq > m.opened_at.seq
    WHERE m.valid_from >= $start
    -- a topic that left earlier and came back in between counts by its last departure
    QUALIFY l.seq = max(l.seq) OVER (PARTITION BY l.broker_name, m.opened_at.seq)
),

topics AS (
    SELECT r.*, l.topic, if(q.opened_at.seq > r.gone_seq, NULL, {'time': q.valid_from, 'by': q.opened_by}) AS back
    FROM returns AS r
    JOIN lost AS l ON l.broker_name = r.broker_name AND l.seq = r.seq
    ASOF LEFT JOIN topic_queue_history AS q
        ON q.broker_name = r.broker_name AND q.topic = l.topic AND q.opened_at.seq >= r.back_seq
),

fewer AS (
    SELECT
        broker_name, broker_addr, since, event_id, gone_time, gone_by, count(*) AS topics,
        list_sort(list(topic) FILTER (coalesce(epoch_us(back.time) > epoch_us(since) + $soon_us, TRUE))) AS away,
        if(count(back.time) = count(*), max(back.time), NULL) AS back_time, arg_max(back.by, back.time) AS back_by
    FROM topics
    GROUP BY broker_name, broker_addr, since, event_id, gone_time, gone_by
    HAVING len(away) > 0
),

comings AS (
    SELECT broker_name, valid_from, arg_min(opened_by, (opened_at.seq, opened_at.no)) AS opened_by
    FROM topic_queue_history
    GROUP BY broker_name, valid_from
),

stayed AS (
    SELECT l.*, {'until': e.valid_to, 'by': e.closed_by} AS gone
    FROM lone AS l
    ANTI JOIN fewer AS f ON f.event_id = l.event_id
    ASOF LEFT JOIN ends AS e ON e.broker_name = l.broker_name AND e.valid_to > l.seen_time
),

-- when topics of a broker name first came on the day, or its group first ended
firsts AS (
    SELECT broker_name, min(at_time) AS first_time
    FROM (SELECT broker_name, valid_from AS at_time FROM comings UNION ALL SELECT broker_name, valid_to FROM ends)
    WHERE at_time >= $start
    GROUP BY broker_name
),

partial AS (
    SELECT
        l.*, f.first_time, if(
            coalesce(q.valid_from < l.gone.until, TRUE), {'until': q.valid_from, 'by': q.opened_by}, {'until': NULL, 'by': NULL}
        ) AS complete
    FROM stayed AS l
    LEFT JOIN firsts AS f ON f.broker_name = l.broker_name
    ASOF LEFT JOIN comings AS q ON q.broker_name = l.broker_name AND q.valid_from > l.seen_time
)

SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, min(seen_time) AS from_time,
    coalesce(complete.until, gone.until) AS to_time,
    if(bool_or(is_refused), count(*) || ' registrations with a single topic were refused', 'registered with a single topic')
        || coalesce(
            '; its other topics came ' || (epoch_us(complete.until) - epoch_us(min(seen_time))) // 1000 || ' ms later', ''
        ) AS detail,
    list(event_id ORDER BY seen_time)[1:19] || [coalesce(complete.by, gone.by)] AS evidence,
    [broker_name] AS broker_names,
    CAST([] AS VARCHAR[]) AS topic_names
FROM partial
-- new registrations of a broker with an open finding belong to that finding, until it ends
ANTI JOIN open_findings AS s
    ON s.subject = concat_ws(' ', partial.broker_name, partial.broker_addr) AND len(s.topic_names) = 0
    AND coalesce(partial.seen_time <= partial.first_time, TRUE)
GROUP BY broker_name, broker_addr, complete, gone
UNION ALL
SELECT
    'warning', concat_ws(' ', broker_name, broker_addr), since, coalesce(back_time, gone_time),
    'back with ' || topics - len(away) || ' of the ' || topics || ' topics that ' || broker_name || ' had before; '
        || if(back_time IS NULL, 'not back: ', 'later back: ') || array_to_string(away[1:10], ', '),
    [event_id, if(back_time IS NULL, gone_by, back_by)], [broker_name], away
FROM fewer
UNION ALL
SELECT
    s.severity, s.subject, s.from_time, least(b.until, g.gone_time), s.detail,
    [s.evidence[1], if(g.gone_time < b.until, g.gone_by, coalesce(b.by, g.gone_by))],
    s.broker_names, s.topic_names
FROM open_findings AS s, LATERAL (
    SELECT
        if(
            len(s.topic_names) = 0, min(back_time), if(count(*) = len(s.topic_names), max(back_time), NULL)
        ) AS until,
        if(len(s.topic_names) = 0, arg_min(back_by, back_time), arg_max(back_by, back_time)) AS by
    FROM (
        SELECT min(valid_from) AS back_time, arg_min(opened_by, (opened_at.seq, opened_at.no)) AS back_by
        FROM topic_queue_history
        WHERE broker_name = s.broker_names[1]
            AND if(len(s.topic_names) = 0, valid_from >= $start, valid_from > s.from_time AND list_contains(s.topic_names, topic))
        GROUP BY topic
    ) AS topics
) AS b, LATERAL (
    SELECT min(valid_to) AS gone_time, arg_min(closed_by, seq) AS gone_by FROM ends WHERE broker_name = s.broker_names[1] AND valid_to >= $start
) AS g

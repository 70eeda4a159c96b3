-- Topics that a broker registers without a mapping while the name server still holds one; only a restart removes a mapping.
-- `unmapped`: how such topics are registered. What began before the day begins with the day here.
-- meaning: a broker registers a topic as a plain one, but the name server still has the mapping of a static one
-- severity: warning
-- remedy: Restart the name servers one by one: until then clients that ask for the route get the old mapping
WITH plain AS (
    SELECT
        m.topic, u.broker_name, greatest(u.seen_time, m.valid_from) AS since, u.event_id, m.total_queues, m.epoch,
        least(u.until_time, m.valid_to) AS until,
        if(m.valid_to IS NULL OR u.until_time <= m.valid_to, u.until_by, m.closed_by) AS until_by
    FROM unmapped AS u
    JOIN topic_queue_mapping_history AS m
        ON m.topic = u.topic AND m.bname = u.broker_name AND (m.valid_to IS NULL OR m.valid_to > u.seen_time)
        AND m.opened_at.seq < u.seq AND (u.until_time IS NULL OR m.valid_from < u.until_time)
    WHERE u.kind = 'plain'
),

ended AS (
    SELECT
        p.topic, p.broker_name, p.since, p.event_id, p.total_queues, p.epoch, p.until, p.until_by,
        min(q.valid_to) AS gone_time, arg_min(q.closed_by, q.valid_to) AS gone_by
    FROM plain AS p
    LEFT JOIN topic_queue_history AS q
        ON q.topic = p.topic AND q.broker_name = p.broker_name AND q.valid_to > p.since
        AND NOT EXISTS (
            FROM topic_queue_history AS o
            WHERE o.topic = q.topic AND o.broker_name = q.broker_name AND o.opened_at.seq <= q.closed_at.seq AND o.valid_from >= q.valid_to
                AND o.opened_by = q.closed_by
        )
    GROUP BY ALL
),

stood AS (
    SELECT
        s.*, list_min([
            e.until_time,
            (
                SELECT min(m.valid_to) FROM topic_queue_mapping_history AS m
                WHERE concat_ws('@', m.topic, m.bname) = s.subject AND m.valid_to > $start
            ),
            (
                SELECT max(q.valid_to) FROM topic_queue_history AS q
                WHERE concat_ws('@', q.topic, q.broker_name) = s.subject
                HAVING count(q.valid_to) = count(*)
            )
        ]) AS until,
        e.until_by
    FROM open_findings AS s
    LEFT JOIN (
        SELECT concat_ws('@', topic, broker_name) AS subject, min(seen_time) AS until_time, arg_min(event_id, seen_time) AS until_by
        FROM unmapped
        WHERE kind <> 'plain'
        GROUP BY topic, broker_name
    ) AS e ON e.subject = s.subject
)

SELECT
    'warning' AS severity, concat_ws('@', topic, broker_name) AS subject, since AS from_time, least(until, gone_time) AS to_time,
    broker_name || ' registers ' || topic || ' as a plain topic; its mapping of ' || total_queues || ' queues (epoch ' || epoch
        || ') stays' AS detail,
    [event_id, if(until IS NULL OR gone_time < until, gone_by, until_by)] AS evidence,
    [topic] AS topic_names, [broker_name] AS broker_names
FROM ended AS e
ANTI JOIN stood AS s ON s.subject = concat_ws('@', e.topic, e.broker_name) AND (s.until IS NULL OR e.since < s.until)
UNION ALL
SELECT severity, subject, from_time, until, detail, [evidence[1], until_by], topic_names, broker_names
FROM stood

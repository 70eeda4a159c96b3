-- Brokers that came with a single topic, until they had another one; 5.x refuses such a registration.
-- meaning: a broker that came with a single topic: refused, or routed for that topic only
-- severity: warning
-- remedy: Change a topic on the broker, or restart it, so that it registers all of its topics
WITH partial AS (
    SELECT
        l.*, (
            SELECT {'until': min(valid_from), 'by': arg_min(opened_by, (opened_at.seq, opened_at.no))}
            FROM topic_queue_history AS q
            WHERE q.broker_name = l.broker_name AND q.valid_from > l.told_time
        ) AS complete
    FROM lone AS l
)

SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, min(told_time) AS from_time,
    complete.until AS to_time,
    if(bool_or(is_refused), count(*) || ' registrations with a single topic were refused', 'registered with a single topic')
        || coalesce(
            '; its other topics came ' || (epoch_us(complete.until) - epoch_us(min(told_time))) // 1000 || ' ms later', ''
        ) AS detail,
    list_sort(list(event_id))[1:19] || if(complete.by IS NULL, [], [complete.by]) AS evidence, [broker_name] AS broker_names
FROM partial
GROUP BY broker_name, broker_addr, complete
UNION ALL
SELECT s.severity, s.subject, s.from_time, f.until, s.detail, list_append(s.evidence, f.by), s.broker_names
FROM standing AS s
JOIN (
    SELECT broker_name, min(valid_from) AS until, arg_min(opened_by, (opened_at.seq, opened_at.no)) AS by
    FROM topic_queue_history
    WHERE valid_from >= $start
    GROUP BY broker_name
) AS f ON f.broker_name = s.broker_names[1]

-- Starts of a name server: it knows no route until brokers register again.
-- meaning: a start: no route is known until brokers register again
-- severity: warning
-- remedy: Restart name servers one by one, and wait until brokers are back
SELECT
    'warning' AS severity, s.namesrv_id AS subject, s.effect_time AS from_time, min(q.valid_from) AS to_time,
    coalesce(
        'first route ' || (epoch_us(min(q.valid_from)) - epoch_us(s.effect_time)) // 1000 || ' ms after the start',
        'no route that day'
    ) AS detail,
    list_filter([s.event_id, arg_min(q.opened_by, (q.opened_at.seq, q.opened_at.no))], lambda id: id IS NOT NULL) AS evidence
FROM event_outcomes AS s
LEFT JOIN topic_queue_history AS q ON q.opened_at.seq > s.seq
WHERE s.operation = 'namesrv_started'
GROUP BY s.namesrv_id, s.event_id, s.effect_time
UNION ALL
SELECT s.severity, s.subject, s.from_time, f.valid_from, s.detail, list_append(s.evidence, f.opened_by)
FROM standing AS s, (
    SELECT min(valid_from) AS valid_from, arg_min(opened_by, (opened_at.seq, opened_at.no)) AS opened_by
    FROM topic_queue_history
    WHERE valid_from >= $start
) AS f

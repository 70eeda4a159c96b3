-- Starts of a name server: it knows no route until brokers register again.
SELECT
    s.namesrv_id, 'NS_COLD_START' AS code, 'warning' AS severity, s.namesrv_id AS subject,
    s.effect_time AS from_time, min(q.valid_from) AS to_time,
    coalesce(
        concat('first route ', timestampdiff(MILLISECOND, s.effect_time, min(q.valid_from)), ' ms after the start'),
        'no route that day'
    ) AS detail,
    filter(array(s.event_id, min_by(q.opened_by, q.opened_at)), id -> id IS NOT NULL) AS evidence, s.day
FROM {event_outcomes} AS s
LEFT JOIN {topic_queue_history} AS q
    ON q.namesrv_id = s.namesrv_id AND q.day = s.day AND q.opened_at.seq > s.seq
WHERE s.operation = 'namesrv_started'
GROUP BY s.namesrv_id, s.day, s.event_id, s.effect_time

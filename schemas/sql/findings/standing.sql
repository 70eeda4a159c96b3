-- The findings that had been told before $day and had not ended by then. `told`: `findings` of one name server, of any days.
SELECT
    s.code, s.severity, s.subject, s.from_time, s.detail, s.evidence, s.brokers, s.broker_names, s.topics, s.topic_names
FROM told AS s
ANTI JOIN told AS e
    ON e.code = s.code AND e.subject = s.subject AND e.from_time = s.from_time AND e.evidence[1] = s.evidence[1]
    AND e.to_time IS NOT NULL AND e.day > s.day AND e.day < $day
WHERE s.to_time IS NULL AND s.day < $day

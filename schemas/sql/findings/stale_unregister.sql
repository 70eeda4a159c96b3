-- meaning: a removal wiped a fresh registration that had arrived after it
-- severity: critical
-- remedy: Upgrade the name server, or find out why it handles ends of connections late; the broker is back with its next registration
SELECT
    'critical' AS severity, concat_ws(' ', w.broker_name, w.broker_addr) AS subject, removed_time AS from_time,
    l.valid_from AS to_time,
    'registered ' || (epoch_us(seen_time) - epoch_us(decided_time)) // 1000 || ' ms after that had arrived which removed it '
        || (epoch_us(removed_time) - epoch_us(seen_time)) // 1000 || ' ms later' AS detail,
    [removed_by, seen_by] AS evidence, [w.broker_name] AS broker_names
FROM wiped AS w
ASOF LEFT JOIN broker_live_history AS l ON l.broker_addr = w.broker_addr AND l.valid_from >= removed_time
UNION ALL
SELECT s.severity, s.subject, s.from_time, min(l.valid_from), s.detail, s.evidence, s.broker_names
FROM open_findings AS s
JOIN broker_live_history AS l ON l.broker_name = s.broker_names[1] AND l.valid_from >= $start
GROUP BY ALL

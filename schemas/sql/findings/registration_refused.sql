-- Brokers whose registrations were refused, until one was taken. A single topic that 5.x refuses is PARTIAL_FIRST_REGISTRATION.
-- meaning: registrations of a broker were refused
-- severity: critical
-- remedy: Look at the reason: a 4.x name server reads no compressed registration of a 5.x broker (compressedRegister)
WITH until AS (
    SELECT
        r.*, (
            SELECT {'until': min(valid_from), 'by': arg_min(opened_by, (opened_at.seq, opened_at.no))}
            FROM broker_live_history AS l
            WHERE l.broker_addr = r.broker_addr AND l.valid_from > r.told_time
        ) AS taken
    FROM refused AS r
)

SELECT
    'critical' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, min(told_time) AS from_time,
    taken.until AS to_time,
    count(*) || ' registrations were refused: ' || string_agg(DISTINCT reason, '; ' ORDER BY reason)
        || coalesce('; the broker is ' || string_agg(DISTINCT broker_version, ', ' ORDER BY broker_version), '')
        || '; the name server ' || (SELECT namesrv_id FROM about)
        || coalesce(' is ' || string_agg(DISTINCT namesrv_version, ', ' ORDER BY namesrv_version), '') AS detail,
    list(event_id ORDER BY told_time, event_id)[1:19] || if(taken.by IS NULL, [], [taken.by]) AS evidence, [broker_name] AS broker_names
FROM until
GROUP BY broker_name, broker_addr, taken
UNION ALL
SELECT s.severity, s.subject, s.from_time, f.until, s.detail, list_append(s.evidence, f.by), s.broker_names
FROM standing AS s
JOIN (
    SELECT
        concat_ws(' ', broker_name, broker_addr) AS subject, min(valid_from) AS until,
        arg_min(opened_by, (opened_at.seq, opened_at.no)) AS by
    FROM broker_live_history
    WHERE valid_from >= $start
    GROUP BY ALL
) AS f ON f.subject = s.subject

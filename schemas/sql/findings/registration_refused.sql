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
),

stood AS (
    SELECT
        s.*, (
            SELECT {'until': min(valid_from), 'by': arg_min(opened_by, (opened_at.seq, opened_at.no))}
            FROM broker_live_history AS l
            WHERE concat_ws(' ', broker_name, broker_addr) = s.subject AND valid_from >= $start
        ) AS taken
    FROM standing AS s
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
ANTI JOIN stood AS s
    ON s.subject = concat_ws(' ', until.broker_name, until.broker_addr) AND coalesce(until.told_time < s.taken.until, TRUE)
GROUP BY broker_name, broker_addr, taken
UNION ALL
SELECT severity, subject, from_time, taken.until, detail, evidence || if(taken.by IS NULL, [], [taken.by]), broker_names
FROM stood

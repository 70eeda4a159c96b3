-- Brokers whose registrations are longer than a frame may be (16 MiB): the name server closes the connection at each, until one
-- fits. `too_long`: these frames. Their header names the broker, else the live entry of their connection or host does.
-- meaning: a broker's registrations are longer than a frame may be: the name server closes the connection each time
-- severity: critical
-- remedy: Set enableSplitRegistration or compressedRegister on the broker, or delete topics that nobody needs
WITH frames AS (
    SELECT
        f.seen_time, f.bytes, coalesce(f.broker_addr, l.broker_addr) AS broker_addr,
        coalesce(f.broker_name, l.broker_name, regexp_replace(f.channel_id, ':[0-9]+#.*$', '')) AS broker_name,
        coalesce(o.event_id, f.quarantine_id) AS event_id
    FROM too_long AS f
    LEFT JOIN (
        SELECT channel_id, min(event_id) AS event_id FROM event_outcomes WHERE operation LIKE 'channel%' GROUP BY channel_id
    ) AS o ON o.channel_id = f.channel_id
    LEFT JOIN LATERAL (
        SELECT l.broker_addr, l.broker_name
        FROM broker_live_history AS l
        WHERE f.broker_addr IS NULL AND l.valid_from <= f.seen_time
            AND regexp_replace(l.channel_id, ':[0-9]+#.*$', '') = regexp_replace(f.channel_id, ':[0-9]+#.*$', '')
        ORDER BY l.channel_id = f.channel_id DESC, l.valid_from DESC
        LIMIT 1
    ) AS l ON TRUE
),

refused AS (
    SELECT
        concat_ws(' ', f.broker_name, f.broker_addr) AS subject, f.broker_name, f.seen_time, f.bytes, f.event_id,
        min(l.valid_from) AS back_time, arg_min(l.opened_by, l.valid_from) AS back_by
    FROM frames AS f
    LEFT JOIN broker_live_history AS l ON l.broker_addr = f.broker_addr AND l.valid_from > f.seen_time
    GROUP BY ALL
),

stood AS (
    SELECT
        s.subject, s.severity, s.from_time, s.detail, s.evidence, s.broker_names,
        min(l.valid_from) AS back_time, arg_min(l.opened_by, l.valid_from) AS back_by
    FROM open_findings AS s
    LEFT JOIN broker_live_history AS l
        ON concat_ws(' ', s.broker_names[1], l.broker_addr) = s.subject AND l.valid_from > s.from_time
    GROUP BY ALL
)

SELECT
    'critical' AS severity, r.subject, min(r.seen_time) AS from_time, r.back_time AS to_time,
    'its frames are too long: ' || count(*) || if(count(*) = 1, ' registration', ' registrations') || ' of up to '
        || format('{:,}', max(r.bytes)) || ' bytes, where 16,777,212 may be; the connection was closed each time' AS detail,
    list(r.event_id ORDER BY r.seen_time)[1:19] || if(r.back_by IS NULL, [], [r.back_by]) AS evidence,
    [r.broker_name] AS broker_names
FROM refused AS r
ANTI JOIN stood AS s ON s.subject = r.subject AND (s.back_time IS NULL OR r.seen_time < s.back_time)
GROUP BY r.subject, r.broker_name, r.back_time, r.back_by
UNION ALL
SELECT
    severity, subject, from_time, back_time, detail, evidence || if(back_by IS NULL, [], [back_by]), broker_names
FROM stood

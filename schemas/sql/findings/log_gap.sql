-- Times of which nothing was recorded. The recorder says so, or connections continued that a silent name server would have
-- closed: then the replay assumes no events in the gap. If all brokers fell silent at once, a gap looks the same as an outage.
-- meaning: nothing was recorded
-- severity: warning
-- remedy: Check the recorder; what the tables say of the gap is only believed
WITH unrecorded AS (
    SELECT *, make_timestamptz(CAST(detail AS BIGINT) * 1000) AS until
    FROM event_outcomes
    WHERE outcome = 'unrecorded'
),

reaches AS (
    SELECT valid_from, max(coalesce(epoch_us(valid_to), 9223372036854775807)) OVER (ORDER BY valid_from) AS reach_us
    FROM broker_live_history
),

silenced AS (
    -- Brokers whose lease ran out while no other live entry outlived them.
    SELECT DISTINCT
        e.cluster_name, e.broker_addr, e.removed_by, epoch_us(e.removed_time) AS removed_us, e.last_beat_time, e.returned_time,
        h.beats IS NOT NULL AS has_beats
    FROM expired_brokers AS e
    LEFT JOIN unrenewed AS h ON h.removed_by = e.removed_by AND h.broker_addr IS NOT DISTINCT FROM e.broker_addr
    ASOF LEFT JOIN reaches AS l ON l.valid_from <= e.removed_time
    WHERE e.cause = 'scan' AND coalesce(l.reach_us <= epoch_us(e.removed_time) + 60000000, TRUE)
),

first_of_wave AS (
    SELECT *, coalesce(removed_us > lag(removed_us) OVER (ORDER BY removed_us) + 120000000, TRUE) AS is_first
    FROM silenced
),

waves AS (
    SELECT *, count_if(is_first) OVER (ORDER BY removed_us) AS wave FROM first_of_wave
)

SELECT
    'warning' AS severity, namesrv_id AS subject,
    effect_time AS from_time, until AS to_time,
    'nothing was recorded for ' || CAST(detail AS BIGINT) // 1000 - epoch_us(effect_time) // 1000000
        || ' s: what happened in it is not known, leases count from its end, and what the tables say is only believed until '
        || 'an event or an answer shows it' AS detail,
    [event_id] AS evidence
FROM unrecorded
WHERE until > effect_time + INTERVAL 1 MILLISECOND
UNION ALL
-- An unreadable request leaves a gap this short. A capture with cut packets has many of them.
SELECT
    'warning', namesrv_id, min(effect_time), max(until),
    'what may have changed it could not be read, ' || count(*)
        || ' times: behind each, what the tables say is only believed until an event or an answer shows it',
    list(event_id ORDER BY effect_time)[:10]
FROM unrecorded
WHERE until <= effect_time + INTERVAL 1 MILLISECOND
GROUP BY namesrv_id
UNION ALL
SELECT
    'warning', (SELECT namesrv_id FROM about), max(last_beat_time), min(returned_time),
    'all ' || count(*) || ' brokers fell silent and expired: an outage, or a gap in the log; if it is one, these expiries are '
        || 'not trustworthy',
    list(removed_by ORDER BY removed_us)[1:20]
FROM waves
GROUP BY wave
-- If one broker was back before another fell silent, or one sent anything, they were never all silent together.
HAVING count(*) > 1 AND NOT bool_or(has_beats) AND (min(returned_time) IS NULL OR min(returned_time) > max(last_beat_time))
UNION ALL
-- A gap still open at the end of its day ends with the first registration of a broker.
SELECT s.severity, s.subject, s.from_time, f.valid_from, s.detail, list_append(s.evidence, f.opened_by)
FROM open_findings AS s, (
    SELECT min(valid_from) AS valid_from, arg_min(opened_by, valid_from) AS opened_by
    FROM broker_live_history
    WHERE valid_from >= $start
) AS f

-- Times in which a name server without a live broker was asked for routes. `asked`: first and last question of each hour, and
-- their answers, which are the evidence. What began before the previous day begins with this day here; a state that existed when
-- the recording began, begins with the recording.
-- meaning: no broker registers with a name server any more, but clients still ask it for routes
-- severity: critical
-- threshold: abandoned_after_s
-- remedy: Take it out of the clients' namesrvAddr, or add it to that of the brokers
WITH lives AS (
    -- an entry with an ended lease may stay: no scan removes an entry that is no longer in a group
    SELECT
        valid_from, opened_by, epoch_us(last_update_time) + 1000 * least(heartbeat_timeout_ms, 1000000000000) AS lease_us,
        coalesce(epoch_us(valid_to), 9223372036854775807) AS gone_us, closed_by
    FROM broker_live_history
),

steps AS (
    SELECT epoch_us(valid_from) AS since_us, 1 AS step, opened_by AS event_id FROM lives
    UNION ALL
    SELECT if(gone_us < lease_us + 60000000, gone_us, lease_us), -1, if(gone_us < lease_us + 60000000, closed_by, opened_by)
    FROM lives
    UNION ALL
    SELECT epoch_us(effect_time), 0, event_id FROM event_outcomes WHERE operation = 'namesrv_started'
    UNION ALL
    -- the state at the beginning of the day, or of the recording
    SELECT
        if(
            (SELECT count(*) FROM open_findings) > 0, epoch_us($start),
            greatest(epoch_us($start), least((SELECT epoch_us(min(effect_time)) FROM event_outcomes), (SELECT min(first_us) FROM asked)))
        ),
        0, NULL
    WHERE EXISTS (FROM open_findings) OR NOT EXISTS (FROM lives WHERE gone_us < epoch_us($start))
),

points AS (
    SELECT since_us, sum(step) AS step, min(event_id) AS event_id FROM steps GROUP BY since_us
),

states AS (
    SELECT
        make_timestamptz(since_us) AS since, sum(step) OVER in_time AS live, event_id,
        make_timestamptz(lead(since_us) OVER in_time) AS until, lead(event_id) OVER in_time AS ended_by
    FROM points
    WINDOW in_time AS (ORDER BY since_us)
),

alone AS (
    FROM states WHERE live = 0 AND (since >= $start OR coalesce(until > $start, TRUE))
)

SELECT
    'critical' AS severity, namesrv_id AS subject, since AS from_time, until AS to_time,
    'no broker is live, and it is asked for routes' AS detail,
    [event_id, first_id, last_id, ended_by] AS evidence
FROM alone, about, LATERAL (
    SELECT arg_min(first_id, first_us) AS first_id, arg_max(last_id, last_us) AS last_id
    FROM asked
    WHERE last_us >= epoch_us(since) AND coalesce(first_us < epoch_us(until), TRUE)
) AS answered
WHERE EXISTS (
        FROM asked
        WHERE last_us >= epoch_us(since) + $abandoned_us AND coalesce(greatest(first_us, epoch_us(since)) < epoch_us(until), TRUE)
    ) AND coalesce(epoch_us(until) - epoch_us(since) >= $abandoned_us, TRUE)
    OR since = $start AND namesrv_id IN (SELECT subject FROM open_findings)

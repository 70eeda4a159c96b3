-- Times of which nothing was recorded. Where the recorder says so, or connections went on that a silent name server would have
-- closed, nothing is made up for the gap; where all brokers at once only fell silent, it cannot be told from an outage.
WITH silenced AS (
    -- Brokers whose lease ran out when no other live entry outlived them. One that did is soon found: nobody counts them.
    SELECT DISTINCT
        e.namesrv_id, e.day, e.cluster_name, e.broker_addr, e.removed_by, e.removed_time, e.last_beat_time, e.returned_time
    FROM {expired_brokers} AS e
    LEFT ANTI JOIN {broker_live_history} AS l
        ON l.namesrv_id = e.namesrv_id AND l.day = e.day AND l.valid_from <= e.removed_time
        AND (l.valid_to IS NULL OR l.valid_to > e.removed_time + INTERVAL 1 MINUTE)
    WHERE e.cause = 'scan'
),

first_of_wave AS (
    SELECT
        *,
        coalesce(
            removed_time > lag(removed_time) OVER (PARTITION BY namesrv_id, day ORDER BY removed_time) + INTERVAL 2 MINUTES,
            TRUE
        ) AS is_first
    FROM silenced
),

waves AS (
    SELECT *, count_if(is_first) OVER (PARTITION BY namesrv_id, day ORDER BY removed_time) AS wave
    FROM first_of_wave
)

SELECT
    namesrv_id, 'LOG_GAP' AS code, 'warning' AS severity, namesrv_id AS subject,
    effect_time AS from_time, timestamp_millis(CAST(detail AS BIGINT)) AS to_time,
    concat(
        'nothing was recorded for ', CAST(detail AS BIGINT) DIV 1000 - unix_seconds(effect_time), ' s: what happened in it is not '
        'known, leases count from its end, and what the tables say is only believed until an event or an answer shows it'
    ) AS detail,
    array(event_id) AS evidence, day
FROM {event_outcomes}
WHERE outcome = 'unrecorded'
UNION ALL
SELECT
    namesrv_id, 'LOG_GAP' AS code, 'warning' AS severity, namesrv_id AS subject,
    max(last_beat_time) AS from_time, min(returned_time) AS to_time,
    concat(
        'all ', count(*), ' brokers fell silent and expired: an outage, or a gap in the log; if it is one, these expiries are not '
        'trustworthy'
    ) AS detail,
    sort_array(collect_set(removed_by)) AS evidence, day
FROM waves
GROUP BY namesrv_id, day, wave
HAVING count(*) > 1

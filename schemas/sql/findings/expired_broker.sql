-- Brokers that were removed because their lease ran out: they fell silent, or were refused (`unrenewed`). A broker that is not back by
-- the end of its day is looked for on later days, up to a limit, in the day's live entries and groups. `expired_before`: rows of
-- earlier days.
-- meaning: a broker fell silent, or was refused, until its lease ran out and it was removed
-- severity: critical if topics lost queues, else warning
-- remedy: Find out whether the broker or its host stood still, or why it was refused; detection_lag_ms says how long clients kept sending to it
WITH away AS (
    SELECT e.*, arg_min(l.opened_by, l.opened_at.seq) AS back_by, min(l.valid_from) AS back_time
    FROM expired_before AS e
    LEFT JOIN (
        SELECT broker_addr, broker_name, valid_from, opened_by, opened_at FROM broker_live_history
        UNION ALL SELECT broker_addr, broker_name, valid_from, opened_by, opened_at FROM broker_addr_history
    ) AS l
        ON l.broker_addr IS NOT DISTINCT FROM e.broker_addr AND l.broker_name IS NOT DISTINCT FROM e.broker_name
        AND l.valid_from > e.removed_time
    WHERE e.returned_by IS NULL AND epoch_us(e.removed_time) > epoch_us($start) - $waited_us
        AND e.removed_by IN (SELECT evidence[1] FROM open_findings)
    GROUP BY ALL
),

expired AS (
    FROM expired_brokers
    UNION ALL BY NAME
    SELECT * REPLACE (back_time AS returned_time, back_by AS returned_by) FROM away
)

SELECT
    if(len(topics_lost) > 0, 'critical', 'warning') AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    coalesce(last_beat_time, removed_time) AS from_time, returned_time AS to_time,
    'removed by ' || cause || coalesce(
        ' ' || detection_lag_ms || ' ms after its last refresh (lease ' || heartbeat_timeout_ms || ' ms)', ', as a log says'
    ) || coalesce(
            '; it was not silent: ' || if(last_beat_time < $start, 'at least ', '') || refused || ' of its requests were refused'
            || if(last_beat_time < $start, ', on that day since ', ' since ') || strftime(refused_since, '%Y-%m-%dT%H:%M:%S.%gZ') || ' (' || array_to_string(reasons, ', ') || ')', ''
        ) || '; ' || len(topics_lost) || ' topics lost queues' AS detail,
    [removed_by, refused_by, returned_by] AS evidence, [broker_name] AS broker_names,
    topics_lost AS topic_names
FROM expired
LEFT JOIN (FROM unrenewed WHERE refused > 0) AS unrenewed USING (removed_by, broker_addr)

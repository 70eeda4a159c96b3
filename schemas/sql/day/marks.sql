-- Instants at which the life of a name server, or its recording, began or broke off.
WITH gaps AS (
    SELECT event_id, effect_time AS begin, make_timestamptz(CAST(detail AS BIGINT) * 1000) AS until
    FROM event_outcomes WHERE outcome = 'unrecorded'
)
SELECT substr(operation, 9) AS kind, effect_time AS "at", CAST(NULL AS TIMESTAMPTZ) AS until
FROM event_outcomes WHERE operation IN ('namesrv_started', 'namesrv_stopped')
UNION ALL
SELECT kind, effect_time, NULL FROM namesrv_events WHERE kind = 'observed_from'
UNION ALL
SELECT 'gap', begin, until FROM gaps
UNION ALL
SELECT 'doubt', from_time, to_time FROM findings
WHERE code = 'LOG_GAP' AND (told_on = $day OR ended_on = $day)
    AND NOT list_has_any(evidence, (SELECT coalesce(list(event_id), []) FROM gaps))
ORDER BY "at", kind

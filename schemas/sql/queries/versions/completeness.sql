-- Is the recording complete: which gaps, duplicates, events out of order, undecodable and ignored frames does it have?
-- column what: gap, frames, quarantine, order decision or mismatch
-- column subject: which kind, or which name server
-- column number: count
-- column first_time: time of the first; NULL if only counts are kept
-- column event_id: event_id of the first, or its quarantine_id
SELECT what, subject, number, first_time, event_id
FROM (
    SELECT
        'frames' AS what, f.key AS subject, sum(f.value) AS number, CAST(NULL AS TIMESTAMP) AS first_time,
        CAST(NULL AS STRING) AS event_id
    FROM (SELECT explode(map_entries(counts)) AS f FROM runs WHERE status = 'published') AS c
    WHERE f.key NOT LIKE 'outcome.%'
    GROUP BY f.key
    UNION ALL
    SELECT concat('recording ', kind), namesrv_id, count(*), min(effect_time), min_by(event_id, seq)
    FROM namesrv_events
    WHERE kind IN ('recording_gap', 'clock_went_back')
    GROUP BY kind, namesrv_id
    UNION ALL
    SELECT 'quarantine', reason, count(*), min(event_time), min(quarantine_id) FROM quarantine GROUP BY reason
    UNION ALL
    SELECT 'order decision', kind, count(*), min(effect_time), min_by(decision_id, effect_time)
    FROM order_decisions
    GROUP BY kind
    UNION ALL
    SELECT concat('answer ', classification), namesrv_id, count(*), min(answer_time), min_by(event_id, answer_time)
    FROM route_mismatches
    GROUP BY classification, namesrv_id
) AS found
WHERE number > 0
ORDER BY what, subject

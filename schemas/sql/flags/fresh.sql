-- Late removals, each with the last registration that its broker had made between the decision and the removal.
SELECT
    l.broker_name, l.broker_addr, max(f.effect_time) AS seen_time, arg_max(f.event_id, f.effect_time) AS seen_by,
    l.decided_time, l.removed_time, l.removed_by
FROM late AS l
JOIN fresh AS f
    ON f.broker_addr = l.broker_addr AND f.event_time > l.decided_time AND f.effect_time < l.removed_time AND f.refusal IS NULL
GROUP BY ALL

-- When the lease of a live row began: with the row, if that was opened before the day, or with what renewed it later.
WITH beats AS (
    SELECT cluster_name, broker_addr, seq, effect_time, event_id FROM registrations WHERE refusal IS NULL
    UNION ALL
    SELECT cluster_name, broker_addr, seq, effect_time, event_id FROM heartbeats
)
SELECT live.cluster_name, live.broker_addr, epoch_ms(greatest(
    any_value(live.first_update_time), max(date_trunc('millisecond', beats.effect_time))
)) AS beat_ms
FROM live LEFT JOIN beats ON beats.broker_addr IS NOT DISTINCT FROM live.broker_addr
    AND (live.cluster_name IS NULL OR beats.cluster_name IS NOT DISTINCT FROM live.cluster_name)
    AND beats.seq >= live.opened_at.seq AND beats.effect_time <= $instant
    AND beats.event_id NOT IN (SELECT event_id FROM event_outcomes WHERE outcome NOT IN ('applied', 'refreshed'))
GROUP BY live.cluster_name, live.broker_addr

-- When the lease of a live row began: with the row, or with what renewed it later; of days before, `last_heartbeats` has the last.
WITH refused AS (
    SELECT event_id FROM event_outcomes WHERE outcome NOT IN ('applied', 'refreshed')
), beats AS (
    SELECT cluster_name, broker_addr, seq, effect_time FROM registrations
    WHERE refusal IS NULL AND event_id NOT IN (FROM refused)
    UNION ALL
    SELECT cluster_name, broker_addr, seq, effect_time FROM heartbeats
    -- Those for which there was no live entry have one row as long as there was none.
    ANTI JOIN (
        SELECT cluster_name, broker_addr, effect_time AS since, last_time FROM event_outcomes WHERE events > 1
    ) AS absent ON absent.cluster_name IS NOT DISTINCT FROM heartbeats.cluster_name
        AND absent.broker_addr IS NOT DISTINCT FROM heartbeats.broker_addr AND effect_time BETWEEN since AND last_time
    WHERE event_id NOT IN (FROM refused)
    UNION ALL
    SELECT cluster_name, broker_addr, NULL, last_update_time FROM last_heartbeats
)
SELECT live.cluster_name, live.broker_addr, epoch_ms(greatest(
    any_value(live.first_update_time), max(date_trunc('millisecond', beats.effect_time))
)) AS beat_ms
FROM live LEFT JOIN beats ON beats.broker_addr IS NOT DISTINCT FROM live.broker_addr
    AND (live.cluster_name IS NULL OR beats.cluster_name IS NOT DISTINCT FROM live.cluster_name)
    AND coalesce(beats.seq >= live.opened_at.seq, beats.effect_time >= live.first_update_time) AND beats.effect_time <= $instant
GROUP BY live.cluster_name, live.broker_addr

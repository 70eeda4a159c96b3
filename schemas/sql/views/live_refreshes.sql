-- Registrations and heartbeats that renewed a lease: all except those with an outcome that says otherwise
-- columns: namesrv_id
-- column cluster_name: Cluster in the request; NULL in 4.x
-- column broker_name: Broker name in the request
-- column broker_addr: Broker address in the request
-- column seq: Order within the name server: sort by namesrv_id, seq
-- column effect_time: When the event took effect
-- column event_id: event_id of the request
-- columns: day
SELECT beat.namesrv_id, beat.cluster_name, beat.broker_name, beat.broker_addr, beat.seq, beat.effect_time, beat.event_id, beat.day
FROM (
    SELECT namesrv_id, cluster_name, broker_name, broker_addr, seq, effect_time, event_id, day FROM registrations WHERE refusal IS NULL
    UNION ALL
    SELECT namesrv_id, cluster_name, broker_name, broker_addr, seq, effect_time, event_id, day FROM heartbeats
) AS beat
LEFT ANTI JOIN (
    -- joined by position, because the id of each heartbeat would have to be computed
    SELECT namesrv_id, seq, day FROM event_outcomes WHERE outcome NOT IN ('applied', 'refreshed')
) AS refused ON refused.namesrv_id = beat.namesrv_id AND refused.seq = beat.seq AND refused.day = beat.day
-- Equal heartbeats without a live entry share one row of event_outcomes until there is an entry.
LEFT ANTI JOIN (
    SELECT namesrv_id, cluster_name, broker_addr, effect_time, last_time, day FROM event_outcomes WHERE events > 1
) AS absent ON absent.namesrv_id = beat.namesrv_id AND absent.day = beat.day AND coalesce(absent.broker_addr, '') = coalesce(beat.broker_addr, '')
    AND coalesce(absent.cluster_name, '') = coalesce(beat.cluster_name, '')
    AND beat.effect_time BETWEEN absent.effect_time AND absent.last_time

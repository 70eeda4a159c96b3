-- Brokers that were removed although they were alive: they sent something (`unrenewed`) between the last renewal of their lease and
-- their removal, and they were back soon. A broker that is frozen, or cut off, sends nothing.
-- meaning: a broker was removed although its heartbeats arrived, and was back within a minute
-- severity: warning
-- threshold: back_within_s
-- remedy: Look for pauses of the name server and for refused requests of the broker; or raise its lease
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, e.broker_addr) AS subject,
    removed_time AS from_time, returned_time AS to_time,
    'registered again ' || (epoch_us(returned_time) - epoch_us(removed_time)) // 1000 || ' ms after its removal, before which '
        || h.beats || ' of its beats had come that did not renew that lease' AS detail,
    [e.removed_by, returned_by] AS evidence, [broker_name] AS broker_names
FROM expired_brokers AS e
JOIN unrenewed AS h ON h.removed_by = e.removed_by AND h.broker_addr IS NOT DISTINCT FROM e.broker_addr
WHERE epoch_us(returned_time) <= epoch_us(removed_time) + $soon_us

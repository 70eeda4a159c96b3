-- Brokers that were removed although they spoke: something came of them (`heard`) between what renewed their lease last and
-- their removal, and they were back soon. A broker that is frozen, or cut off, says nothing.
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    removed_time AS from_time, returned_time AS to_time,
    'registered again ' || (epoch_us(returned_time) - epoch_us(removed_time)) // 1000 || ' ms after its removal, before which '
        || (SELECT count(*) FROM heard AS h WHERE h.removed_by = e.removed_by AND h.broker_addr IS NOT DISTINCT FROM e.broker_addr)
        || ' of its beats had come that renewed no lease' AS detail,
    [removed_by, returned_by] AS evidence
FROM expired_brokers AS e
SEMI JOIN heard AS h ON h.removed_by = e.removed_by AND h.broker_addr IS NOT DISTINCT FROM e.broker_addr
WHERE epoch_us(returned_time) <= epoch_us(removed_time) + $soon_us

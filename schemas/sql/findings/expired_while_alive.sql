-- Brokers that came back so soon after their removal that they can hardly have been dead.
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    removed_time AS from_time, returned_time AS to_time,
    'registered again ' || (epoch_us(returned_time) - epoch_us(removed_time)) // 1000 || ' ms after its removal' AS detail,
    [removed_by, returned_by] AS evidence
FROM expired_brokers
WHERE epoch_us(returned_time) <= epoch_us(removed_time) + $soon_us

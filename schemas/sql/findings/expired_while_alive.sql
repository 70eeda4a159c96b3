-- Brokers that came back so soon after their removal that they can hardly have been dead.
SELECT
    namesrv_id, 'EXPIRED_WHILE_ALIVE' AS code, 'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    removed_time AS from_time, returned_time AS to_time,
    concat('registered again ', timestampdiff(MILLISECOND, removed_time, returned_time), ' ms after its removal') AS detail,
    array(removed_by, returned_by) AS evidence, day
FROM {expired_brokers}
WHERE returned_time <= removed_time + INTERVAL 60 SECONDS

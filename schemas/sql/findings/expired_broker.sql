-- Brokers that fell silent and were removed.
SELECT
    namesrv_id, 'EXPIRED_BROKER' AS code, IF(size(topics_lost) > 0, 'critical', 'warning') AS severity,
    concat_ws(' ', broker_name, broker_addr) AS subject, last_beat_time AS from_time, returned_time AS to_time,
    concat(
        'removed by ', cause, ' ', detection_lag_ms, ' ms after its last refresh (lease ', heartbeat_timeout_ms, ' ms); ',
        size(topics_lost), ' topics lost queues'
    ) AS detail,
    filter(array(removed_by, returned_by), id -> id IS NOT NULL) AS evidence, day
FROM {expired_brokers}

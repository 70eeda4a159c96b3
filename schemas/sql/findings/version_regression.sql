-- Brokers that reported an older data version than before.
SELECT
    namesrv_id, 'VERSION_REGRESSION' AS code, 'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    valid_from AS from_time, valid_to AS to_time,
    concat(
        'counter ', coalesce(CAST(previous.counter AS STRING), 'null'), ' -> ',
        coalesce(CAST(data_version.counter AS STRING), 'null'),
        ', timestamp ', previous.timestamp, ' -> ', data_version.timestamp
    ) AS detail,
    array(opened_by) AS evidence, day
FROM {data_version_history}
WHERE is_regression AND to_date(valid_from) = day

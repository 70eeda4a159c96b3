-- Brokers that reported an older data version than before.
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, valid_from AS from_time, valid_from AS to_time,
    'counter ' || coalesce(CAST(previous.counter AS VARCHAR), 'null') || ' -> '
        || coalesce(CAST(data_version.counter AS VARCHAR), 'null')
        || ', timestamp ' || previous.timestamp || ' -> ' || data_version.timestamp AS detail,
    [opened_by] AS evidence
FROM data_version_history
WHERE is_regression AND valid_from >= $start

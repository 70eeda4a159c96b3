-- meaning: a broker reported an older data version than before
-- severity: warning
-- remedy: Check whether the broker was restored from an older copy; its topics may be older, too
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, valid_from AS from_time, valid_from AS to_time,
    'counter ' || coalesce(CAST(previous.counter AS VARCHAR), 'null') || ' -> '
        || coalesce(CAST(data_version.counter AS VARCHAR), 'null')
        || ', timestamp ' || previous.timestamp || ' -> ' || data_version.timestamp AS detail,
    [opened_by] AS evidence, [broker_name] AS broker_names
FROM data_version_history
WHERE is_regression AND valid_from >= $start

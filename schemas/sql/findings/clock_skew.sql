-- Brokers whose data version is from the future: their clock disagrees with the recorder's.
-- meaning: a data version is from the future, or two name servers were recorded by clocks that disagree
-- severity: warning
-- threshold: clock_ahead_ms
-- remedy: Compare the clocks of the hosts
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    min(valid_from) AS from_time, max(valid_from) AS to_time,
    'its data version is up to ' || max(data_version.timestamp - epoch_ms(valid_from)) // 1000
        || ' s ahead of the clock with which it was recorded' AS detail,
    list(opened_by ORDER BY valid_from)[1:20] AS evidence, [broker_name] AS broker_names
FROM data_version_history
WHERE valid_from >= $start AND beginning_seen AND data_version.timestamp > epoch_ms(valid_from) + $ahead_ms
GROUP BY broker_name, broker_addr

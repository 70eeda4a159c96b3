-- Registered addresses that other machines can hardly reach, those of a cluster and day together: loopback, and 172.16/12,
-- Docker's default range.
-- meaning: registered addresses that other machines can hardly reach
-- severity: info
-- remedy: Set brokerIP1 to an address that clients reach
SELECT
    'info' AS severity, coalesce(cluster_name, namesrv_id) AS subject, min(valid_from) AS from_time,
    if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
    'other machines can hardly reach ' || count(DISTINCT concat_ws(' ', broker_name, broker_addr))
        || if(count(DISTINCT concat_ws(' ', broker_name, broker_addr)) = 1, ' broker: ', ' brokers: ')
        || array_to_string(list_sort(list(DISTINCT concat_ws(' ', broker_name, broker_addr)))[1:10], ', ') AS detail,
    list_sort(list(DISTINCT opened_by))[1:20] AS evidence, list(DISTINCT broker_name) AS broker_names
FROM broker_addr_history
WHERE regexp_matches(broker_addr, '^(127[.]|localhost:|172[.](1[6-9]|2[0-9]|3[01])[.])')
GROUP BY coalesce(cluster_name, namesrv_id), CAST(valid_from AS DATE)

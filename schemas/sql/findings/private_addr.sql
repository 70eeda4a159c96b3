-- Registered addresses that other machines can hardly reach, one row for a cluster and day. `address_kind` gives the reason.
-- meaning: registered addresses that other machines can hardly reach: loopback, unspecified, link-local, a container's, or without a port
-- severity: info
-- remedy: Set brokerIP1 and listenPort to an address that clients reach
WITH kinds AS (
    SELECT *, {address_kind(broker_addr)} AS kind FROM broker_addr_history
)

SELECT
    'info' AS severity, coalesce(cluster_name, namesrv_id) AS subject, min(valid_from) AS from_time,
    if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
    'other machines can hardly reach ' || count(DISTINCT (broker_name, broker_addr))
        || if(count(DISTINCT (broker_name, broker_addr)) = 1, ' broker: ', ' brokers: ')
        || array_to_string(
            list_sort(list(DISTINCT concat_ws(' ', broker_name, nullif(broker_addr, ''), '(' || kind || ')')))[1:20], ', '
        ) AS detail,
    list_transform(list_sort(list(DISTINCT {'at': valid_from, 'by': opened_by}))[1:20], lambda event: event.by)
        || if(count(valid_to) = count(*), [arg_max(closed_by, valid_to)], []) AS evidence,
    list(DISTINCT broker_name) AS broker_names
FROM kinds
WHERE kind IS NOT NULL
GROUP BY coalesce(cluster_name, namesrv_id), CAST(valid_from AS DATE)

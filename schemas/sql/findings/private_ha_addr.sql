-- Replication addresses that slaves can hardly reach, one row for a cluster and host: of a kind as in PRIVATE_ADDR, or given by two
-- hosts of one group. If the broker itself is at such a host, PRIVATE_ADDR reports it. What began before the day begins with the
-- day here.
-- meaning: a haServerAddr that slaves can hardly reach: of a kind as in PRIVATE_ADDR, or given by two hosts of one group
-- severity: warning
-- remedy: Set brokerIP2 to an address that the group's slaves reach; until then slaves may replicate nothing
WITH entries AS (
    SELECT
        l.broker_addr, l.ha_server_addr, l.valid_from, l.valid_to, l.opened_by, l.closed_by,
        coalesce(m.broker_name, l.broker_name) AS broker_name, coalesce(m.cluster_name, l.cluster_name) AS cluster_name,
        regexp_replace(l.broker_addr, ':[^:]*$', '') AS host, {address_kind(ha_server_addr)} AS kind,
        {address_kind(l.broker_addr)} AS own_kind
    FROM broker_live_history AS l
    LEFT JOIN (
        SELECT broker_addr, min(broker_name) AS broker_name, min(cluster_name) AS cluster_name
        FROM broker_addr_history
        GROUP BY broker_addr
    ) AS m ON m.broker_addr = l.broker_addr
    WHERE l.ha_server_addr <> ''
),

shared AS (
    FROM entries WHERE (ha_server_addr, broker_name) IN (
        SELECT (ha_server_addr, broker_name) FROM entries GROUP BY ha_server_addr, broker_name HAVING count(DISTINCT host) > 1
    )
),

odd AS (
    SELECT *, kind AS reason FROM entries
    WHERE kind IS NOT NULL AND (own_kind IS NULL OR host <> regexp_replace(ha_server_addr, ':[^:]*$', ''))
    UNION
    SELECT *, coalesce(kind, 'given by two hosts') AS reason
    FROM shared AS e
    WHERE EXISTS (
        FROM shared AS o
        WHERE o.ha_server_addr = e.ha_server_addr AND o.broker_name = e.broker_name AND o.host <> e.host
            AND (o.valid_to IS NULL OR o.valid_to > e.valid_from) AND (e.valid_to IS NULL OR e.valid_to > o.valid_from)
    )
)

SELECT
    'warning' AS severity,
    concat_ws(' ', coalesce(cluster_name, (SELECT namesrv_id FROM about)), regexp_replace(ha_server_addr, ':[^:]*$', '')) AS subject,
    greatest(min(valid_from), $start) AS from_time,
    if(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
    'slaves can hardly reach the haServerAddr of ' || count(DISTINCT (broker_name, broker_addr))
        || if(count(DISTINCT (broker_name, broker_addr)) = 1, ' broker: ', ' brokers: ')
        || array_to_string(list_sort(list(DISTINCT concat_ws(
            ' ', broker_name, broker_addr, 'gives', ha_server_addr, '(' || reason || ')'
        )))[1:10], ', ') AS detail,
    list_transform(list_sort(list(DISTINCT {'at': valid_from, 'by': opened_by}))[1:20], lambda event: event.by)
        || if(count(valid_to) = count(*), [arg_max(closed_by, valid_to)], []) AS evidence,
    list(DISTINCT broker_name) AS broker_names
FROM odd
GROUP BY cluster_name, regexp_replace(ha_server_addr, ':[^:]*$', '')

-- meaning: an address was registered in two groups, or under two ids, at the same time
-- severity: critical
-- remedy: Find the configuration with the wrong brokerName or brokerId; stop that broker and let its old entry be removed
WITH pairs AS (
    SELECT
        a.broker_addr, greatest(a.valid_from, b.valid_from) AS from_time, least(a.valid_to, b.valid_to) AS to_time,
        [a.broker_name || ' id ' || a.broker_id, b.broker_name || ' id ' || b.broker_id] AS identities,
        [a.broker_name, b.broker_name] AS names,
        [
            if(a.opened_at.seq > b.opened_at.seq, a.opened_by, b.opened_by),
            if(a.opened_at.seq > b.opened_at.seq, b.opened_by, a.opened_by),
            if(b.valid_to IS NULL OR a.valid_to <= b.valid_to, a.closed_by, b.closed_by)
        ] AS events
    FROM broker_addr_history AS a
    JOIN broker_addr_history AS b
        ON a.broker_addr = b.broker_addr
        AND (a.broker_name < b.broker_name OR a.broker_name = b.broker_name AND a.broker_id < b.broker_id)
        AND a.opened_at.seq < coalesce(b.closed_at.seq, 9223372036854775807)
        AND b.opened_at.seq < coalesce(a.closed_at.seq, 9223372036854775807)
),

addrs AS (
    SELECT
        broker_addr, min(from_time) AS from_time, if(count(to_time) = count(*), max(to_time), NULL) AS to_time,
        list_sort(list_distinct(flatten(list(identities)))) AS identities, flatten(list(names)) AS broker_names,
        flatten(list(events ORDER BY from_time))[1:20] AS evidence
    FROM pairs
    GROUP BY broker_addr
)

SELECT
    'critical' AS severity, broker_addr AS subject, from_time, to_time,
    array_to_string(identities, ' and ') || ' are ' || if(len(identities) > 2, 'all', 'both')
        || ' registered at this address' AS detail,
    evidence, broker_names
FROM addrs

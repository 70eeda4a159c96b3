-- meaning: an address was registered in two groups, or under two ids, at the same time
-- severity: critical
-- remedy: Find the configuration with the wrong brokerName or brokerId; stop that broker and let its old entry be removed
WITH identities AS (
    SELECT
        broker_addr, broker_name, broker_name || ' id ' || broker_id AS identity, valid_from, valid_to, opened_by, closed_by, opened_at,
        closed_at, row_number() OVER in_time AS n,
        coalesce(
            max(coalesce(closed_at.seq, 9223372036854775807)) OVER (in_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            > opened_at.seq, FALSE
        ) AS joins,
        coalesce(lead(opened_at.seq) OVER in_time < coalesce(closed_at.seq, 9223372036854775807), FALSE) AS is_joined
    FROM broker_addr_history
    WHERE broker_addr IS NOT NULL AND broker_name IS NOT NULL
    WINDOW in_time AS (PARTITION BY broker_addr ORDER BY opened_at, broker_name, broker_id)
),

addrs AS (
    SELECT
        broker_addr, min(valid_from) FILTER (joins) AS from_time, list_sort(list(DISTINCT identity)) AS identities,
        list(DISTINCT broker_name) AS broker_names
    FROM identities
    WHERE joins OR is_joined
    GROUP BY broker_addr
),

steps AS (
    SELECT broker_addr, opened_at.seq AS seq, 1 AS step, CAST(NULL AS TIMESTAMPTZ) AS closed_time FROM identities
    UNION ALL
    SELECT broker_addr, closed_at.seq, -1, valid_to FROM identities WHERE closed_by IS NOT NULL
),

counts AS (
    SELECT
        broker_addr, max(closed_time) AS closed_time, sum(sum(step)) OVER in_time AS held, held - sum(step) AS held_before,
        lead(seq) OVER in_time IS NULL AS is_last
    FROM steps
    GROUP BY broker_addr, seq
    WINDOW in_time AS (PARTITION BY broker_addr ORDER BY seq)
),

ends AS (
    SELECT broker_addr, if(bool_or(is_last AND held > 1), NULL, max(closed_time) FILTER (held_before > 1)) AS to_time
    FROM counts
    GROUP BY broker_addr
),

-- of many pairs, the first twenty events are in those of the first seven that joined others
pairs AS (
    SELECT
        b.broker_addr, flatten(list(
            [b.opened_by, a.opened_by, if(b.valid_to IS NULL OR a.valid_to <= b.valid_to, a.closed_by, b.closed_by)]
            ORDER BY b.n, a.n
        ))[1:20] AS evidence
    FROM (
        FROM identities WHERE joins QUALIFY row_number() OVER (PARTITION BY broker_addr ORDER BY n) <= 7
    ) AS b
    JOIN identities AS a
        ON a.broker_addr = b.broker_addr AND a.n < b.n AND coalesce(a.closed_at.seq > b.opened_at.seq, TRUE)
    GROUP BY b.broker_addr
)

SELECT
    'critical' AS severity, broker_addr AS subject, from_time, to_time,
    array_to_string(identities, ' and ') || ' are ' || if(len(identities) > 2, 'all', 'both')
        || ' registered at this address' AS detail,
    evidence, broker_names
FROM addrs
JOIN ends USING (broker_addr)
JOIN pairs USING (broker_addr)

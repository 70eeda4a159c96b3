-- meaning: two clusters listed one broker name at the same time
-- severity: critical
-- remedy: Give one of the two brokers another brokerName
WITH pairs AS (
    SELECT
        a.broker_name, greatest(a.valid_from, b.valid_from) AS from_time, least(a.valid_to, b.valid_to) AS to_time,
        [a.cluster_name, b.cluster_name] AS clusters,
        [
            if(a.opened_at.seq > b.opened_at.seq, a.opened_by, b.opened_by),
            if(a.opened_at.seq > b.opened_at.seq, b.opened_by, a.opened_by),
            if(b.valid_to IS NULL OR a.valid_to <= b.valid_to, a.closed_by, b.closed_by)
        ] AS events
    FROM cluster_addr_history AS a
    JOIN cluster_addr_history AS b
        ON a.broker_name = b.broker_name AND a.cluster_name < b.cluster_name
        AND a.opened_at.seq < coalesce(b.closed_at.seq, 9223372036854775807)
        AND b.opened_at.seq < coalesce(a.closed_at.seq, 9223372036854775807)
)

SELECT
    'critical' AS severity, broker_name AS subject, min(from_time) AS from_time,
    if(count(to_time) = count(*), max(to_time), NULL) AS to_time,
    'in the clusters ' || array_to_string(list_sort(list_distinct(flatten(list(clusters)))), ' and ') AS detail,
    flatten(list(events ORDER BY from_time))[1:20] AS evidence, [broker_name] AS broker_names
FROM pairs
GROUP BY broker_name

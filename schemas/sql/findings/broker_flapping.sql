-- Live entries that went three times and more within an hour.
WITH gone AS (
    SELECT l.namesrv_id, l.day, l.cluster_name, l.broker_addr, l.valid_to AS at, l.closed_by AS event_id,
        lead(l.valid_to, 2) OVER (
            PARTITION BY l.namesrv_id, l.day, l.cluster_name, l.broker_addr ORDER BY l.closed_at.seq
        ) AS third,
        lag(l.valid_to, 2) OVER (
            PARTITION BY l.namesrv_id, l.day, l.cluster_name, l.broker_addr ORDER BY l.closed_at.seq
        ) AS third_last,
        lag(l.valid_to, 1) OVER (
            PARTITION BY l.namesrv_id, l.day, l.cluster_name, l.broker_addr ORDER BY l.closed_at.seq
        ) AS before,
        lead(l.valid_to, 1) OVER (
            PARTITION BY l.namesrv_id, l.day, l.cluster_name, l.broker_addr ORDER BY l.closed_at.seq
        ) AS after
    FROM {broker_live_history} AS l
    -- a row that is replaced by the same event is no departure
    LEFT ANTI JOIN {broker_live_history} AS next
        ON next.namesrv_id = l.namesrv_id AND next.day = l.day AND next.cluster_name <=> l.cluster_name
        AND next.broker_addr <=> l.broker_addr AND next.opened_at.seq = l.closed_at.seq
    WHERE l.closed_by IS NOT NULL
)
SELECT
    namesrv_id, 'BROKER_FLAPPING' AS code, 'critical' AS severity, broker_addr AS subject,
    min(at) AS from_time, max(at) AS to_time, concat(count(*), ' times gone, three and more within an hour') AS detail,
    sort_array(collect_set(event_id)) AS evidence, day
FROM gone
WHERE third <= at + INTERVAL 1 HOUR
    OR third_last >= at - INTERVAL 1 HOUR
    OR (before >= after - INTERVAL 1 HOUR)
GROUP BY namesrv_id, day, cluster_name, broker_addr

-- Which brokers leave three times or more within an hour, not counting stops of the name server?
-- parameter times INT = 3: departures within an hour
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column first_time: first departure; hours that overlap are one row
-- column last_time: last departure
-- column departures: number of departures
-- column operations: operations of the events that removed it
-- column event_ids: events that removed it
WITH gone AS (
    SELECT *
    FROM broker_lives
    WHERE left_by NOT IN ('namesrv_started', 'namesrv_stopped', 'recording_gap') AND {within(to_time)}
), hours AS (
    SELECT g.namesrv_id, g.broker_name, g.broker_addr, g.to_time AS first_time, max(o.to_time) AS last_time
    FROM gone AS g
    JOIN gone AS o
        ON o.namesrv_id = g.namesrv_id AND o.broker_name <=> g.broker_name AND o.broker_addr = g.broker_addr
        AND o.to_time >= g.to_time AND timestampdiff(SECOND, g.to_time, o.to_time) < 3600
    GROUP BY g.namesrv_id, g.broker_name, g.broker_addr, g.to_time
    -- max(), because DuckDB takes a macro's argument for a column
    HAVING count(*) >= max(:times)
), times AS (
    SELECT namesrv_id, broker_name, broker_addr, min(first_time) AS first_time, max(last_time) AS last_time
    FROM (
        SELECT *, sum(begins) OVER (PARTITION BY namesrv_id, broker_name, broker_addr ORDER BY first_time) AS number
        FROM (
            SELECT
                h.*, IF(max(h.last_time) OVER (
                    PARTITION BY h.namesrv_id, h.broker_name, h.broker_addr ORDER BY h.first_time
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) >= h.first_time, 0, 1) AS begins
            FROM hours AS h
        )
    )
    GROUP BY namesrv_id, broker_name, broker_addr, number
)
SELECT
    t.namesrv_id, t.broker_name, t.broker_addr, t.first_time, t.last_time, count(*) AS departures,
    array_join(array_sort(collect_set(g.left_by)), ', ') AS operations, array_sort(collect_list(g.closed_by)) AS event_ids
FROM times AS t
JOIN gone AS g
    ON g.namesrv_id = t.namesrv_id AND g.broker_name <=> t.broker_name AND g.broker_addr = t.broker_addr
    AND g.to_time BETWEEN t.first_time AND t.last_time
GROUP BY t.namesrv_id, t.broker_name, t.broker_addr, t.first_time, t.last_time
ORDER BY t.first_time, t.namesrv_id, t.broker_addr

-- Which brokers leave three times or more within an hour, not counting stops of the name server?
-- parameter times INT = 3: departures within an hour
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column first_time: first departure of the hour
-- column last_time: last departure of the hour
-- column departures: number of departures
-- column operations: operations of the events that removed it
-- column event_ids: events that removed it
WITH gone AS (
    SELECT *
    FROM broker_lives
    WHERE left_by NOT IN ('namesrv_started', 'namesrv_stopped', 'recording_gap') AND {within(to_time)}
), hours AS (
    SELECT
        g.namesrv_id, g.broker_name, g.broker_addr, g.to_time AS first_time, max(o.to_time) AS last_time,
        count(*) AS departures, array_join(array_sort(collect_set(o.left_by)), ', ') AS operations,
        array_sort(collect_list(o.closed_by)) AS event_ids
    FROM gone AS g
    JOIN gone AS o
        ON o.namesrv_id = g.namesrv_id AND o.broker_name = g.broker_name AND o.broker_addr = g.broker_addr
        AND o.to_time >= g.to_time AND timestampdiff(SECOND, g.to_time, o.to_time) < 3600
    GROUP BY g.namesrv_id, g.broker_name, g.broker_addr, g.to_time
    -- max(), because DuckDB takes a macro's argument for a column
    HAVING count(*) >= max(:times)
)
SELECT h.namesrv_id, h.broker_name, h.broker_addr, h.first_time, h.last_time, h.departures, h.operations, h.event_ids
FROM hours AS h
-- of overlapping hours, keep the first
LEFT ANTI JOIN hours AS earlier
    ON earlier.namesrv_id = h.namesrv_id AND earlier.broker_name = h.broker_name AND earlier.broker_addr = h.broker_addr
    AND earlier.first_time < h.first_time AND earlier.last_time >= h.first_time
ORDER BY h.first_time, h.namesrv_id, h.broker_addr

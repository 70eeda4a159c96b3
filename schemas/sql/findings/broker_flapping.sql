-- Live entries removed three times or more within an hour. An hour that began before midnight is reported with the next day, too.
-- meaning: a live entry was removed three times or more within an hour
-- severity: critical
-- threshold: flapping_within_s
-- remedy: Look at departures: lost connections point to the network or to restarts, scans point to pauses of the broker
WITH gone AS (
    SELECT
        l.cluster_name, l.broker_addr, l.broker_name, l.valid_to AS gone_time, l.closed_by AS event_id, epoch_us(l.valid_to) AS us,
        lead(us, 2) OVER entry AS third, lag(us, 2) OVER entry AS third_last,
        lag(us) OVER entry AS before, lead(us) OVER entry AS after,
        min(us) FILTER (l.valid_to >= $start) OVER (PARTITION BY l.cluster_name, l.broker_addr) AS first_today
    FROM broker_live_history AS l
    -- a row replaced by the same event is no departure
    ANTI JOIN broker_live_history AS next
        ON next.cluster_name IS NOT DISTINCT FROM l.cluster_name
        AND next.broker_addr IS NOT DISTINCT FROM l.broker_addr AND next.opened_at.seq = l.closed_at.seq
    -- the end of the name server's own process is no departure either
    ANTI JOIN event_outcomes AS o
        ON o.event_id = l.closed_by AND o.operation IN ('namesrv_stopped', 'namesrv_started')
    WHERE l.closed_by IS NOT NULL
    WINDOW entry AS (PARTITION BY l.cluster_name, l.broker_addr ORDER BY l.closed_at.seq)
)

SELECT
    'critical' AS severity, broker_addr AS subject, min(gone_time) AS from_time, max(gone_time) AS to_time,
    count(*) || ' times gone, three and more within '
        || if($flapping_us = 3600000000, 'an hour', $flapping_us // 1000000 || ' s') AS detail,
    list(event_id ORDER BY gone_time)[1:20] AS evidence, list(DISTINCT broker_name) AS broker_names
FROM gone
WHERE (third <= us + $flapping_us OR third_last >= us - $flapping_us OR before >= after - $flapping_us)
    AND first_today <= us + $flapping_us
GROUP BY cluster_name, broker_addr
HAVING max(gone_time) >= $start

-- Broker names in a cluster's set whose group is gone. Only a leaving member takes a name out of a set, and only out of the set
-- of the cluster that it names when it leaves. What began before the day begins with the day here.
-- meaning: a cluster still lists a broker name whose group is gone
-- severity: warning
-- remedy: Start a broker of that name in that cluster and shut it down in order, or restart the name servers one by one
WITH names AS (
    SELECT *, concat_ws(' ', cluster_name, broker_name) AS subject FROM cluster_addr_history
),

starts AS (
    SELECT c.subject, c.cluster_name, c.broker_name, c.valid_to, c.closed_by, g.closed_at.seq AS seq, g.valid_to AS since, g.closed_by AS event_id
    FROM names AS c
    JOIN broker_addr_history AS g
        ON g.broker_name = c.broker_name AND g.closed_at.seq >= c.opened_at.seq
        AND (c.closed_by IS NULL OR g.closed_at.seq < c.closed_at.seq)
    UNION
    SELECT subject, cluster_name, broker_name, valid_to, closed_by, epoch_us($start) * 1000, $start, NULL
    FROM names
    WHERE valid_from < $start AND subject IN (SELECT subject FROM standing)
),

gaps AS (
    SELECT
        s.*, min(h.valid_from) FILTER (h.opened_at.seq > s.seq) AS next_time,
        arg_min(h.opened_by, h.opened_at.seq) FILTER (h.opened_at.seq > s.seq) AS next_by
    FROM starts AS s
    LEFT JOIN broker_addr_history AS h ON h.broker_name = s.broker_name
    GROUP BY ALL
    HAVING NOT coalesce(bool_or(h.opened_at.seq <= s.seq AND (h.closed_by IS NULL OR h.closed_at.seq > s.seq)), FALSE)
)

SELECT
    'warning' AS severity, subject, since AS from_time, least(next_time, valid_to) AS to_time,
    cluster_name || ' goes on listing ' || broker_name || ', of which there is no group any more' AS detail,
    [event_id, if(valid_to IS NULL OR next_time <= valid_to, next_by, closed_by)] AS evidence,
    [broker_name] AS broker_names
FROM gaps

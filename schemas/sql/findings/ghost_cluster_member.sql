-- Broker names in a cluster's set whose group is gone. Only a leaving member takes a name out of a set, and only out of the set
-- of the cluster that it names when it leaves. What began before the day begins with the day here.
-- meaning: a cluster still lists a broker name whose group is gone
-- severity: warning
-- remedy: Start a broker of that name in that cluster and shut it down in order, or restart the name servers one by one
WITH names AS (
    SELECT *, concat_ws(' ', cluster_name, broker_name) AS subject FROM cluster_addr_history
),

-- `reach`: until when the group has had a member without a break
groups AS (
    SELECT
        broker_name, opened_at.seq AS seq, valid_from, opened_by,
        max(coalesce(closed_at.seq, 9223372036854775807)) OVER (PARTITION BY broker_name ORDER BY opened_at.seq) AS reach
    FROM broker_addr_history
),

emptied AS (
    SELECT DISTINCT h.broker_name, h.closed_at.seq AS seq, h.valid_to AS since, h.closed_by AS event_id
    FROM broker_addr_history AS h
    ASOF JOIN groups AS g ON g.broker_name = h.broker_name AND g.seq <= h.closed_at.seq
    WHERE h.closed_by IS NOT NULL AND g.reach <= h.closed_at.seq
),

starts AS (
    SELECT c.subject, c.cluster_name, c.broker_name, c.valid_to, c.closed_by, e.seq, e.since, e.event_id
    FROM (SELECT m.cluster_name, e.* FROM emptied AS e JOIN (SELECT DISTINCT cluster_name, broker_name FROM names) AS m USING (broker_name)) AS e
    ASOF JOIN names AS c ON c.cluster_name = e.cluster_name AND c.broker_name = e.broker_name AND c.opened_at.seq <= e.seq
    WHERE c.closed_by IS NULL OR e.seq < c.closed_at.seq
    UNION
    SELECT subject, cluster_name, broker_name, valid_to, closed_by, epoch_us($start) * 1000, $start, NULL
    FROM names
    WHERE valid_from < $start AND subject IN (SELECT subject FROM open_findings)
),

gaps AS (
    SELECT s.*, n.valid_from AS next_time, n.opened_by AS next_by
    FROM starts AS s
    ASOF LEFT JOIN groups AS g ON g.broker_name = s.broker_name AND g.seq <= s.seq
    ASOF LEFT JOIN groups AS n ON n.broker_name = s.broker_name AND n.seq > s.seq
    WHERE coalesce(g.reach <= s.seq, TRUE)
)

SELECT
    'warning' AS severity, subject, since AS from_time, least(next_time, valid_to) AS to_time,
    cluster_name || ' goes on listing ' || broker_name || ', of which there is no group any more' AS detail,
    [event_id, if(valid_to IS NULL OR next_time <= valid_to, next_by, closed_by)] AS evidence,
    [broker_name] AS broker_names
FROM gaps

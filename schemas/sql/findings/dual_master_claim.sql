-- Times in which two addresses claimed one id of a group, a master's or a slave's: one was refused for an older state version, or
-- they replaced each other in turn. A single replacement is no claim. Brokers send heartbeats every 30 s, so claims two minutes
-- apart are separate ones.
-- meaning: two addresses claim to be the master of one group, or a slave of it with the same id
-- severity: critical of a master, warning of a slave
-- remedy: Stop one of the two, or give it another id; find out whether a controller or a script started a second one
WITH holders AS (
    SELECT
        broker_name, broker_id, broker_addr, valid_from, opened_by, opened_at.seq AS seq,
        lag(broker_addr) OVER in_time AS addr_before, lag(closed_by) OVER in_time AS closed_before
    FROM broker_addr_history
    WINDOW in_time AS (PARTITION BY broker_name, broker_id ORDER BY opened_at.seq)
),

claims AS (
    SELECT broker_name, broker_id, broker_addr, valid_from AS at_time, opened_by AS event_id, 0 AS refused
    FROM holders
    WHERE closed_before = opened_by AND addr_before <> broker_addr
    UNION ALL
    -- the outcome does not name the refused id: take the id that the address had
    SELECT o.broker_name, coalesce(h.broker_id, 0), o.broker_addr, o.effect_time, o.event_id, 1
    FROM event_outcomes AS o
    LEFT JOIN (
        SELECT broker_name, broker_addr, arg_max(broker_id, opened_at.seq) AS broker_id
        FROM broker_addr_history
        GROUP BY broker_name, broker_addr
    ) AS h ON h.broker_name = o.broker_name AND h.broker_addr = o.broker_addr
    WHERE o.outcome = 'rejected_state_version'
),

spaced AS (
    SELECT
        *, broker_name || if(broker_id = 0, '', ' id ' || broker_id) AS subject,
        coalesce(
            epoch_us(at_time) - lag(epoch_us(at_time)) OVER (PARTITION BY broker_name, broker_id ORDER BY at_time) > 120000000, FALSE
        ) AS begins
    FROM claims
),

waves AS (
    SELECT *, count_if(begins) OVER (PARTITION BY subject ORDER BY at_time) AS wave FROM spaced
),

found AS (
    SELECT
        subject, broker_name, broker_id, min(at_time) AS first_time, max(at_time) AS last_time, sum(refused) AS refused,
        count(*) AS claims, list_sort(list(DISTINCT broker_addr)) AS addrs, list(event_id ORDER BY at_time) AS ids
    FROM waves
    GROUP BY subject, broker_name, broker_id, wave
    HAVING (sum(refused) > 0 OR count(*) > 1)
        AND (last_time >= $start OR epoch_us(last_time) + 120000000 > epoch_us($start) AND subject IN (SELECT subject FROM open_findings))
)

SELECT
    if(broker_id = 0, 'critical', 'warning') AS severity, subject,
    first_time AS from_time,
    if(epoch_us(last_time) + 120000000 > (SELECT epoch_us(seen_until) FROM about), NULL, last_time) AS to_time,
    claims - refused || ' times the place of ' || if(broker_id = 0, 'the master', 'id ' || broker_id) || ' was taken over, and '
        || refused || ' claims were refused for an older state version, by ' || array_to_string(addrs, ', ') AS detail,
    ids[1:20] AS evidence, [broker_name] AS broker_names
FROM found

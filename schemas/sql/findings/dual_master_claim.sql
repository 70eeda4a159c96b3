-- Times in which two addresses claimed to be one group's master: one was refused for an older state version, or they took the
-- place from each other. A master that is replaced once is none. Brokers send heartbeats every 30 s; claims two minutes apart are others.
-- meaning: two addresses that claim to be the master of one group
-- severity: critical
-- remedy: Stop one of the two; look whether a controller or a script started a second master
WITH masters AS (
    SELECT
        broker_name, broker_addr, valid_from, opened_by, opened_at.seq AS seq,
        lag(broker_addr) OVER in_time AS addr_before, lag(closed_by) OVER in_time AS closed_before
    FROM broker_addr_history
    WHERE broker_id = 0
    WINDOW in_time AS (PARTITION BY broker_name ORDER BY opened_at.seq)
),

claims AS (
    SELECT broker_name, broker_addr, valid_from AS at_time, opened_by AS event_id, 0 AS refused
    FROM masters
    WHERE closed_before = opened_by AND addr_before <> broker_addr
    UNION ALL
    SELECT broker_name, broker_addr, effect_time, event_id, 1 FROM event_outcomes WHERE outcome = 'rejected_state_version'
),

spaced AS (
    SELECT
        *, coalesce(epoch_us(at_time) - lag(epoch_us(at_time)) OVER (PARTITION BY broker_name ORDER BY at_time) > 120000000, FALSE)
            AS is_apart
    FROM claims
),

waves AS (
    SELECT *, count_if(is_apart) OVER (PARTITION BY broker_name ORDER BY at_time) AS wave FROM spaced
),

found AS (
    SELECT
        broker_name, min(at_time) AS first_time, max(at_time) AS last_time, sum(refused) AS refused, count(*) AS claims,
        list_sort(list(DISTINCT broker_addr)) AS addrs, list(event_id ORDER BY at_time) AS ids
    FROM waves
    GROUP BY broker_name, wave
    HAVING (sum(refused) > 0 OR count(*) > 1)
        AND (last_time >= $start OR epoch_us(last_time) + 120000000 > epoch_us($start) AND broker_name IN (SELECT subject FROM standing))
)

SELECT
    'critical' AS severity, broker_name AS subject,
    first_time AS from_time,
    if(epoch_us(last_time) + 120000000 > (SELECT epoch_us(seen_until) FROM about), NULL, last_time) AS to_time,
    claims - refused || ' times the place of the master was taken over, and ' || refused
        || ' claims were refused for an older state version, by ' || array_to_string(addrs, ', ') AS detail,
    ids[1:20] AS evidence, [broker_name] AS broker_names
FROM found

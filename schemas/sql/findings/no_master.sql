-- Groups with members of which none has id 0. What began before the day begins with the day here.
WITH moves AS (
    SELECT namesrv_id, day, broker_name, enable_acting_master, opened_at.seq AS seq, valid_from AS at, opened_by AS event_id,
        IF(broker_id IS NULL, 0, 1) AS members, IF(broker_id = 0, 1, 0) AS masters
    FROM {broker_addr_history}
    UNION ALL
    SELECT namesrv_id, day, broker_name, enable_acting_master, closed_at.seq, valid_to, closed_by,
        -IF(broker_id IS NULL, 0, 1), -IF(broker_id = 0, 1, 0)
    FROM {broker_addr_history}
    WHERE closed_by IS NOT NULL
),
steps AS (
    SELECT namesrv_id, day, broker_name, seq, min(at) AS at, min(event_id) AS event_id,
        max(enable_acting_master) AS enable_acting_master, sum(members) AS members, sum(masters) AS masters
    FROM moves
    GROUP BY namesrv_id, day, broker_name, seq
),
states AS (
    SELECT *, sum(members) OVER so_far > 0 AND sum(masters) OVER so_far = 0 AS no_master
    FROM steps
    WINDOW so_far AS (PARTITION BY namesrv_id, day, broker_name ORDER BY seq)
),
-- many steps lie before the day: of those only the last one is a state of the day
of_day AS (
    SELECT *, lead(at) OVER (PARTITION BY namesrv_id, day, broker_name ORDER BY seq) AS next_at FROM states
),
flips AS (
    SELECT *, lag(no_master, 1, false) OVER (PARTITION BY namesrv_id, day, broker_name ORDER BY seq) AS was
    FROM of_day
    WHERE next_at IS NULL OR next_at >= CAST(day AS TIMESTAMP)
),
runs AS (
    SELECT *, lead(at) OVER next_flip AS to_time, lead(event_id) OVER next_flip AS ended_by
    FROM flips
    WHERE no_master <> was
    WINDOW next_flip AS (PARTITION BY namesrv_id, day, broker_name ORDER BY seq)
)
SELECT
    namesrv_id, 'NO_MASTER' AS code, IF(enable_acting_master, 'warning', 'critical') AS severity, broker_name AS subject,
    greatest(at, CAST(day AS TIMESTAMP)) AS from_time, to_time,
    IF(enable_acting_master, 'no id 0; the smallest id may act as master', 'no id 0 in the group') AS detail,
    filter(array(event_id, ended_by), id -> id IS NOT NULL) AS evidence, day
FROM runs
WHERE no_master AND broker_name IS NOT NULL

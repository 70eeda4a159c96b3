-- Groups with members of which none has id 0. What began before the day begins with the day here; the open finding has the event
-- that began it.
-- meaning: a group has members, but none with id 0
-- severity: critical; warning where a slave may act as master
-- remedy: Start the master, or let a slave take its place: until then nothing can be written to the group
WITH moves AS (
    SELECT
        broker_name, enable_acting_master, opened_at.seq AS seq, valid_from AS since, opened_by AS event_id,
        if(broker_id IS NULL, 0, 1) AS members, if(broker_id = 0, 1, 0) AS masters
    FROM broker_addr_history
    UNION ALL
    SELECT
        broker_name, enable_acting_master, closed_at.seq, valid_to, closed_by,
        -if(broker_id IS NULL, 0, 1), -if(broker_id = 0, 1, 0)
    FROM broker_addr_history
    WHERE closed_by IS NOT NULL
),

steps AS (
    SELECT
        broker_name, seq, min(since) AS since, min(event_id) AS event_id,
        bool_or(enable_acting_master) AS enable_acting_master, sum(members) AS members, sum(masters) AS masters
    FROM moves
    GROUP BY broker_name, seq
),

states AS (
    SELECT
        *, sum(members) OVER so_far > 0 AND sum(masters) OVER so_far = 0 AS no_master,
        -- of the many steps before the day, only the last one is still in force on the day
        coalesce(lead(since) OVER so_far >= $start, TRUE) AS is_of_day
    FROM steps
    WINDOW so_far AS (PARTITION BY broker_name ORDER BY seq)
),

flips AS (
    SELECT *, lag(no_master, 1, FALSE) OVER (PARTITION BY broker_name ORDER BY seq) AS was FROM states WHERE is_of_day
),

runs AS (
    SELECT *, lead(since) OVER next_flip AS to_time, lead(event_id) OVER next_flip AS ended_by
    FROM flips
    WHERE no_master <> was
    WINDOW next_flip AS (PARTITION BY broker_name ORDER BY seq)
)

SELECT
    if(enable_acting_master, 'warning', 'critical') AS severity, broker_name AS subject,
    greatest(since, $start) AS from_time, to_time,
    if(enable_acting_master, 'no id 0; the smallest id may act as master', 'no id 0 in the group') AS detail,
    [if(since < $start AND broker_name IN (SELECT subject FROM open_findings), NULL, event_id), ended_by] AS evidence,
    [broker_name] AS broker_names
FROM runs
WHERE no_master AND broker_name IS NOT NULL

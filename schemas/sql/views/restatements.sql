-- Partitions (one day of a table and name server) that a run published with other rows than the run before it; rows appended
-- after the end of what the run before knew restate nothing
-- column run_id: Run that changed the partition
-- column previous_run: Run that had published the partition before
-- column table_name: Gold table
-- columns: namesrv_id
-- column day: Day that had been published; for intervals the day on which they closed
-- column rows_before: Number of rows before
-- column rows_after: Number of rows now
-- column cause: events (more or other events of that day are recorded now), configuration, code, or other_day (the state from another day is different)
-- column new_events: Number of events and answers recorded in addition for the day
-- column ingest_runs: If events are the cause: ingest runs whose rows this run is the first to cover
WITH published AS (
    SELECT run_id, days, inputs, outputs, ingest_runs, late_namesrvs, config_sha256, code_version,
        row_number() OVER (ORDER BY finished_time, run_id) AS number
    FROM runs WHERE status = 'published'
), again AS (
    SELECT number, day, lag(number) OVER (PARTITION BY day ORDER BY number) AS before
    FROM (SELECT number, explode(days) AS day FROM published) AS d
), cuts AS (
    SELECT number, c.`table` AS table_name, c.day, c.namesrv_id, c.digest, TRUE AS is_made
    FROM (SELECT number, explode(outputs) AS c FROM published) AS o
    UNION ALL
    SELECT number, c.`table`, c.day, c.namesrv_id, c.digest, FALSE
    FROM (SELECT number, explode(inputs) AS c FROM published) AS i
    WHERE c.`table` IN ({recorded})
), compared AS (
    SELECT a.number, a.before, a.day, c.table_name, c.namesrv_id, c.is_made,
        max(CASE WHEN c.number = a.before THEN c.digest END) AS old, max(CASE WHEN c.number = a.number THEN c.digest END) AS new
    FROM again AS a JOIN cuts AS c ON c.day = a.day AND c.number IN (a.before, a.number)
    WHERE a.before IS NOT NULL
    GROUP BY a.number, a.before, a.day, c.table_name, c.namesrv_id, c.is_made
), differing AS (
    SELECT number, before, day, table_name, namesrv_id, is_made,
        CAST(coalesce(split_part(old, '-', 1), '0') AS BIGINT) AS rows_before,
        CAST(coalesce(split_part(new, '-', 1), '0') AS BIGINT) AS rows_after
    FROM compared WHERE coalesce(old, '') <> coalesce(new, '')
), fresh AS (
    SELECT number, day, namesrv_id, sum(rows_after - rows_before) AS new_events, min(rows_after - rows_before) >= 0 AS goes_on
    FROM differing WHERE NOT is_made GROUP BY number, day, namesrv_id
), known AS (
    SELECT number, newest, max(newest) OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_day
    FROM (SELECT number, max(day) AS newest FROM again GROUP BY number) AS n
)
SELECT
    p.run_id, q.run_id, d.table_name, d.namesrv_id, d.day, d.rows_before, d.rows_after,
    CASE
        WHEN t.number IS NOT NULL THEN 'events' WHEN p.config_sha256 <> q.config_sha256 THEN 'configuration'
        WHEN p.code_version <> q.code_version THEN 'code' ELSE 'other_day'
    END,
    coalesce(t.new_events, 0), CASE WHEN t.number IS NOT NULL THEN p.ingest_runs ELSE array() END
FROM differing AS d
JOIN published AS p ON p.number = d.number
JOIN published AS q ON q.number = d.before
JOIN known AS k ON k.number = d.number
LEFT JOIN fresh AS t ON t.number = d.number AND t.day = d.day AND t.namesrv_id = d.namesrv_id
WHERE
    d.is_made AND (
        d.day <> k.last_day OR array_contains(p.late_namesrvs, d.namesrv_id) OR p.config_sha256 <> q.config_sha256 OR p.code_version <> q.code_version
        OR NOT (k.newest > k.last_day OR coalesce(t.goes_on, FALSE))
    )

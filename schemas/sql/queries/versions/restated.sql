-- What did later runs change in days already published, and because of which late events?
-- parameter day STRING = NULL: only this day, YYYY-MM-DD
-- columns: namesrv_id
-- column day: day that was published before
-- column table_name: table
-- column run_id: run that changed it
-- column previous_run: run that published the old rows; `--as-known-at` asks as of it, `ask changes` lists each row changed since
-- column cause: events, configuration, code, or other_day
-- column rows_before: number of rows before
-- column rows_after: number of rows now
-- column new_events: events and answers that came late
-- column event_ids: event_ids of the first few
WITH late AS (
    SELECT DISTINCT run_id, namesrv_id, day, ingest_run
    FROM (SELECT run_id, namesrv_id, day, explode(ingest_runs) AS ingest_run FROM restatements) AS r
), named AS (
    SELECT l.run_id, l.namesrv_id, l.day, slice(array_sort(collect_list(e.event_id)), 1, 20) AS event_ids
    FROM late AS l
    JOIN events AS e ON e.namesrv_id = l.namesrv_id AND e.day = l.day AND e.ingest_run = l.ingest_run
    GROUP BY l.run_id, l.namesrv_id, l.day
)
SELECT
    r.namesrv_id, r.day, r.table_name, r.run_id, r.previous_run, r.cause, r.rows_before, r.rows_after, r.new_events, n.event_ids
FROM restatements AS r
LEFT JOIN named AS n ON n.run_id = r.run_id AND n.namesrv_id = r.namesrv_id AND n.day = r.day
WHERE :day IS NULL OR r.day = CAST(:day AS DATE)
ORDER BY r.day, r.namesrv_id, r.table_name, r.run_id

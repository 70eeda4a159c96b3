-- What did a later run change in days that an earlier one had published, and because of which late events?
-- How it was then is asked with --as-known-at and the previous run.
-- group: versions, load and audit
-- parameter day STRING = NULL: only this day, YYYY-MM-DD
-- column namesrv_id: name server
-- column day: day that was published before
-- column table_name: table
-- column run_id: run that changed it
-- column previous_run: run that had published it otherwise
-- column cause: events, earlier_day, configuration or code
-- column rows_added: rows that are new
-- column rows_removed: rows that are gone
-- column new_events: events that came late
-- column event_ids: the first of them
SELECT
    namesrv_id, day, table_name, run_id, previous_run, cause, rows_added, rows_removed, new_events, event_ids
FROM restatements
WHERE :day IS NULL OR day = CAST(:day AS DATE)
ORDER BY day, namesrv_id, table_name, run_id

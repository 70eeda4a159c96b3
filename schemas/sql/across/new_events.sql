-- What no published run covers, by day and name server.
WITH told AS (SELECT *, ingest_run IN (SELECT unnest($covered)) AS is_known FROM recorded)
SELECT
    day, namesrv_id, count(*) FILTER (NOT is_known) AS events,
    min({'seq': seq, 'event_id': event_id}, $named) FILTER (NOT is_known) AS first,
    list(DISTINCT ingest_run) FILTER (NOT is_known) AS ingest_runs, max(seq) FILTER (is_known) AS last_known
FROM told GROUP BY day, namesrv_id

-- Number of keys of each map at the end of the day, and its maximum since the process last started, or since the map was made.
WITH rows_of_maps AS (
    SELECT {map} AS map, {key} AS key, if(opened_at.seq < $from_seq, NULL, opened_at) AS opened_at, closed_at
    FROM history SEMI JOIN wanted ON {map} IS NOT DISTINCT FROM wanted.map WHERE {is_key}
), edges AS (
    SELECT map, key, position, sum(step) AS step
    FROM (
        SELECT map, key, opened_at AS position, 1 AS step FROM rows_of_maps
        UNION ALL SELECT map, key, closed_at, -1 FROM rows_of_maps WHERE closed_at IS NOT NULL
    ) GROUP BY ALL
), lasting AS (
    SELECT map, position, step, sum(step) OVER (PARTITION BY map, key ORDER BY position NULLS FIRST) AS rows_left FROM edges
), changes AS (
    -- A key is there as long as one of its rows is.
    SELECT map, position, sum((rows_left > 0)::INT - (rows_left - step > 0)::INT) AS change FROM lasting GROUP BY ALL
), held AS (
    SELECT map, position, sum(change) OVER by_age AS keys, lead(position) OVER by_age AS until
    FROM changes WINDOW by_age AS (PARTITION BY map ORDER BY position NULLS FIRST)
), lives AS (
    SELECT *, max(position) FILTER (keys = 0 AND $goes_when_empty) OVER (PARTITION BY map) AS made FROM held
)
SELECT map, (max(keys) FILTER (until IS NULL))::BIGINT AS now,
    (max(keys) FILTER ((until IS NULL OR until.seq > $start_seq) AND (made IS NULL OR position >= made)))::BIGINT AS peak,
    bool_and(made IS NULL) AS is_of_before
FROM lives GROUP BY map

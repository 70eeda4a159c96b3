-- Pairs of name servers that saw the same data versions at different times. A broker registers with all name servers at once. A
-- name server that was down sees old versions late, hence the median of several.
WITH pairs AS (
    SELECT
        one.namesrv_id, other.namesrv_id AS other_id, one.seen_time, one.seen_by,
        (epoch_ms(other.seen_time) - epoch_ms(one.seen_time)) / 1000 AS seconds
    FROM first_versions AS one
    JOIN first_versions AS other
        ON other.namesrv_id > one.namesrv_id AND other.data_version = one.data_version
        AND other.cluster_name IS NOT DISTINCT FROM one.cluster_name
        AND other.broker_name IS NOT DISTINCT FROM one.broker_name
        AND other.broker_addr IS NOT DISTINCT FROM one.broker_addr
)

SELECT
    namesrv_id, 'CLOCK_SKEW' AS code, 'warning' AS severity, concat_ws(' ', namesrv_id, other_id) AS subject,
    min(seen_time) AS from_time, max(seen_time) AS to_time,
    'the second recorded the same ' || count(*) || ' data versions by ' || round(median(seconds), 3)
        || ' s later (the median)' AS detail,
    list_sort(list(seen_by))[1:20] AS evidence, len(evidence) AS begun_with, 0 AS brokers, [] AS broker_names, 0 AS topics, [] AS topic_names
FROM pairs
GROUP BY namesrv_id, other_id
HAVING count(*) >= 3 AND abs(median(seconds)) > 5

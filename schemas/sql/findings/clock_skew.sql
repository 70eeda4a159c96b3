-- Clocks that disagree: a broker's data version from the future, and name servers that saw the same versions at other times.
WITH reported AS (
    SELECT * FROM {data_version_history}
    WHERE to_date(valid_from) = day AND beginning_seen AND data_version.timestamp IS NOT NULL
),

first_seen AS (
    SELECT
        namesrv_id, cluster_name, broker_name, broker_addr, data_version, day, min(valid_from) AS seen_time,
        min_by(opened_by, valid_from) AS seen_by
    FROM reported
    GROUP BY ALL
),

apart AS (
    SELECT
        one.namesrv_id, other.namesrv_id AS other_id, one.day, one.seen_time, one.seen_by,
        (unix_millis(other.seen_time) - unix_millis(one.seen_time)) / 1000 AS seconds
    FROM first_seen AS one
    INNER JOIN first_seen AS other
        ON other.day = one.day AND other.namesrv_id > one.namesrv_id
        AND other.cluster_name <=> one.cluster_name AND other.broker_name <=> one.broker_name
        AND other.broker_addr <=> one.broker_addr AND other.data_version = one.data_version
)

SELECT
    namesrv_id, 'CLOCK_SKEW' AS code, 'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject,
    min(valid_from) AS from_time, max(valid_from) AS to_time,
    concat(
        'its data version is up to ', max(data_version.timestamp - unix_millis(valid_from)) DIV 1000,
        ' s ahead of the clock with which it was recorded'
    ) AS detail,
    slice(sort_array(collect_list(opened_by)), 1, 20) AS evidence, day
FROM reported
WHERE data_version.timestamp > unix_millis(valid_from) + 60000
GROUP BY namesrv_id, broker_name, broker_addr, day
UNION ALL
-- A broker registers with all name servers at once. One that was down sees old versions late, hence the median of several.
SELECT
    namesrv_id, 'CLOCK_SKEW' AS code, 'warning' AS severity, concat_ws(' ', namesrv_id, other_id) AS subject,
    min(seen_time) AS from_time, max(seen_time) AS to_time,
    concat(
        'the second recorded the same ', count(*), ' data versions by ', round(median(seconds), 3), ' s later (the median)'
    ) AS detail,
    slice(sort_array(collect_list(seen_by)), 1, 20) AS evidence, day
FROM apart
GROUP BY namesrv_id, other_id, day
HAVING count(*) >= 3 AND abs(median(seconds)) > 5

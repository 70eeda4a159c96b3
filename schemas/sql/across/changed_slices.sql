-- Slices that differ, and in how many rows; equal ones count as often as they are there.
WITH hashed AS (
    SELECT day, namesrv_id, {hash} AS hash, 1 AS sign FROM new
    UNION ALL SELECT day, namesrv_id, {hash}, -1 FROM old
), surplus AS (
    SELECT
        day, namesrv_id, sum(sign) AS surplus, count(*) FILTER (sign < 0) AS before, count(*) FILTER (sign > 0) AS after
    FROM hashed GROUP BY day, namesrv_id, hash
)
SELECT
    day, namesrv_id, CAST(sum(before) AS BIGINT) AS rows_before, CAST(sum(after) AS BIGINT) AS rows_after,
    CAST(sum(greatest(surplus, 0)) AS BIGINT) AS rows_added, CAST(sum(greatest(-surplus, 0)) AS BIGINT) AS rows_removed
FROM surplus GROUP BY day, namesrv_id HAVING bool_or(surplus <> 0)

-- The first rows of a day that were added, removed or changed, told apart by the table's key.
WITH differing AS (
    SELECT hash FROM (SELECT {hash} AS hash, 1 AS sign FROM new UNION ALL SELECT {hash}, -1 FROM old)
    GROUP BY hash HAVING sum(sign) <> 0
), before AS (
    SELECT day, namesrv_id, {key} AS key, {rest} AS said FROM old WHERE {hash} IN (SELECT hash FROM differing)
), after AS (
    SELECT day, namesrv_id, {key} AS key, {rest} AS said FROM new WHERE {hash} IN (SELECT hash FROM differing)
)
SELECT day, namesrv_id, key, before.said AS before, after.said AS after
FROM before FULL JOIN after USING (day, namesrv_id, key) WHERE before.said IS DISTINCT FROM after.said
QUALIFY row_number() OVER (PARTITION BY day ORDER BY namesrv_id, key) <= $shown
ORDER BY day, namesrv_id, key

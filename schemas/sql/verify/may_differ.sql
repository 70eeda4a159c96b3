-- What leaves a map of many; or a key that lost a member, maybe the oldest, of which the rows of the others know
-- nothing.
WITH members AS (
    SELECT {own} AS own, {inner} AS other, bool_or(closed_by IS NOT NULL) AS lost, min({age}) AS age,
        min({age}) FILTER (closed_by IS NULL) AS age_now
    FROM history GROUP BY ALL
), keys AS (
    SELECT own, count(*) AS members, bool_or(lost) AS lost, min(age_now) IS DISTINCT FROM min(age) AS aged
    FROM members GROUP BY own
)
SELECT coalesce(
    bool_or(lost AND members >= $crowd) OR (count(*) >= $crowd AND bool_or(lost AND (aged OR $is_flat)))
    OR (count(*) > 1 AND bool_or(aged AND members > 1)), false
) AS found FROM keys

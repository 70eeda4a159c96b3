-- A key is there as long as one of its rows is: those that last longer than all that were opened before.
WITH lasting AS (
    SELECT {own} AS own, place, opened_at, outer_entered_at AS age,
        coalesce(closed_at, {{'seq': 9223372036854775807, 'no': 0}}) AS until,
        CASE WHEN opened_at.seq < $from_seq THEN 0 ELSE place + 1 END AS carried,
        CASE WHEN closed_at IS NULL THEN 0 ELSE place + 1 END AS stays
    FROM history
), told AS (
    SELECT own, place,
        (until > max(until) OVER (
            PARTITION BY own ORDER BY opened_at, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )) IS NOT FALSE AS goes_on,
        row_number() OVER (PARTITION BY own, carried ORDER BY age, place) = 1 AND carried = 0 AS came_with,
        row_number() OVER (PARTITION BY own, stays ORDER BY age, place) = 1 AND stays = 0 AS goes_with
    FROM lasting
)
SELECT place FROM told
WHERE goes_on OR came_with OR goes_with OR EXISTS (FROM walked WHERE walked.own IS NOT DISTINCT FROM told.own)
ORDER BY place

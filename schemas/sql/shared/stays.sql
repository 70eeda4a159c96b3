-- The rows of {rows} with those joined that say the same ({rows}.what): one goes on with the row that the event closed which
-- opened it.
(
    SELECT
        what, min(valid_from) AS from_time, IF(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
        min_by(opened_by, opened_at) AS opened_by, nullif(max_by(coalesce(closed_by, ''), opened_at), '') AS closed_by,
        min(opened_at) AS opened_at
    FROM (
        SELECT *, sum(IF(goes_on, 0, 1)) OVER (PARTITION BY what ORDER BY opened_at) AS stay
        FROM (
            SELECT *, coalesce(lag(closed_by) OVER (PARTITION BY what ORDER BY opened_at) = opened_by, FALSE) AS goes_on
            FROM {rows}
        )
    )
    GROUP BY what, stay
)

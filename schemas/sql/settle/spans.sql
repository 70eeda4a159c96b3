-- Stretches of time in which something is under way.
WITH around AS (
    SELECT coalesce(received_seq, seq) - $under_way_ns AS first_seq, seq + $under_way_ns AS last_seq FROM effects
), numbered AS (
    SELECT *, max(last_seq) OVER (ORDER BY first_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until_seq
    FROM around
), apart AS (
    SELECT *, count(*) FILTER (until_seq IS NULL OR until_seq < first_seq) OVER (ORDER BY first_seq) AS span FROM numbered
)
SELECT min(first_seq) AS first_seq, max(last_seq) AS last_seq FROM apart GROUP BY span

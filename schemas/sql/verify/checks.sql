-- Counts of compared answers, by request code.
WITH counted AS (
    SELECT
        code, sum(answers) AS answers, sum(answers) FILTER (matched) AS matched,
        sum(answers) FILTER (matched AND same_order) AS same_order,
        sum(answers) FILTER (matched AND same_bytes) AS same_bytes,
        sum(answers) FILTER (matched AND in_flight) AS in_flight
    FROM verdicts GROUP BY code
), unmatched AS (
    SELECT
        code, count(*) FILTER (classification IN ('unknown_past', 'unseen_broker', 'other_address')) AS unknown_past,
        count(*) FILTER (classification = 'mismatched') AS mismatched,
        count(*) - unknown_past - mismatched AS explained
    FROM mismatches GROUP BY code
)
SELECT code, CAST(coalesce(COLUMNS(* EXCLUDE (code)), 0) AS BIGINT)
FROM counted LEFT JOIN unmatched USING (code)

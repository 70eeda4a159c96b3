-- Keys, and their ages before the day and after it. One that lost its oldest member may have gone in between, or not.
SELECT {keys}, min(now) IS NULL OR count(*) = 1 OR min(now) = min(first) AS is_clear,
    min(before).seq AS before_seq, min(before).no AS before_no, min(now).seq AS now_seq, min(now).no AS now_no
FROM (
    SELECT {keys}, {member} AS of_key, min({age}) AS first, min({age}) FILTER (opened_at.seq < $from_seq) AS before,
        min({age}) FILTER (closed_by IS NULL) AS now
    FROM history GROUP BY ALL
) GROUP BY {keys}

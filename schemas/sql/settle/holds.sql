-- Times in which registrations waited long for their answers: since what may have taken the lock after it was last seen free.
WITH waited AS (
    SELECT arrival_seq, seq FROM registered WHERE answered AND seq - arrival_seq > $lag_ns
), freed AS (
    SELECT seq FROM registered WHERE answered
    UNION ALL SELECT seq FROM observed WHERE list_contains($locking, code) AND response_code <> $refused
), taken AS (
    SELECT seq FROM unregistrations UNION ALL SELECT seq FROM ends
    UNION ALL SELECT arrival_seq FROM registered WHERE NOT answered
), since AS (
    SELECT waited.*, freed.seq - $lag_ns AS free_seq FROM waited ASOF LEFT JOIN freed ON freed.seq < waited.arrival_seq
)
SELECT least(arrival_seq, taken.seq) AS from_seq, since.seq AS until_seq
FROM since ASOF LEFT JOIN taken ON taken.seq > since.free_seq ORDER BY ALL

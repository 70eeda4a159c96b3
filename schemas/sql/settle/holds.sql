-- Times in which registrations waited long for their answers: since what may have taken the lock after it was last seen free,
-- and not so long before that others would have waited. Of hours in which none did, `hours` have the last registrations.
WITH waited AS (
    SELECT arrival_seq, seq FROM registered WHERE answered AND seq - arrival_seq > $lag_ns
), freed AS (
    SELECT seq FROM registered WHERE answered
    UNION ALL SELECT last_seq FROM hours WHERE kind = 'registrations' AND lag_ns IS NOT NULL
    UNION ALL SELECT seq FROM observed WHERE list_contains($locking, code) AND response_code <> $refused
), taken AS (
    SELECT seq FROM unregistrations UNION ALL SELECT seq FROM ends
    UNION ALL SELECT arrival_seq FROM registered WHERE NOT answered
), since AS (
    SELECT waited.*, greatest(freed.seq - $lag_ns, arrival_seq - $every_ns) AS free_seq
    FROM waited ASOF LEFT JOIN freed ON freed.seq < waited.arrival_seq
)
SELECT least(arrival_seq, taken.seq) AS from_seq, since.seq AS until_seq
FROM since ASOF LEFT JOIN taken ON taken.seq > since.free_seq ORDER BY ALL

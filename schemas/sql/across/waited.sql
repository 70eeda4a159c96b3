-- Who thaws works off in any order what has come meanwhile: what a broker registered in a stall, or before it, may be gone.
SELECT namesrv_id, from_seq, max(until_seq) OVER (PARTITION BY namesrv_id ORDER BY from_seq) AS until_seq
FROM (FROM stalls UNION ALL SELECT namesrv_id, request_seq, seq FROM answers WHERE seq - request_seq >= $stall_ns)

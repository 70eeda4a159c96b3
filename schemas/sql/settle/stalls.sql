-- Pauses in which a heartbeat waited and the name server sent nothing at all.
WITH waiting AS (
    SELECT * FROM beats WHERE seq - arrival_seq >= $stall_ns
), answered AS (
    SELECT arrival_seq, seq FROM requests UNION ALL SELECT request_seq, seq FROM observed
), long AS (
    SELECT * FROM answered WHERE seq - arrival_seq >= $stall_ns
), sent AS (
    SELECT seq FROM answered UNION ALL SELECT seq FROM ends WHERE closed_by = 'namesrv'
    UNION ALL -- the server's own end of a connection that the client ended; a reset connection has none
    SELECT min(seq) FROM ends WHERE closed_by = 'client' GROUP BY channel_id HAVING bool_and(kind = 'close')
), pauses AS (
    SELECT lag(seq) OVER (ORDER BY seq) AS from_seq, seq AS until_seq FROM sent
), stalls AS (
    SELECT greatest(coalesce(from_seq, 0), min(arrival_seq)) AS from_seq, until_seq
    FROM pauses JOIN long ON arrival_seq <= until_seq - $stall_ns AND seq >= until_seq
    WHERE until_seq - coalesce(from_seq, 0) >= $stall_ns AND EXISTS (
        SELECT 1 FROM waiting WHERE waiting.arrival_seq <= until_seq - $stall_ns AND waiting.seq >= until_seq
    )
    GROUP BY from_seq, until_seq
)
SELECT from_seq, until_seq FROM stalls WHERE until_seq - from_seq >= $stall_ns ORDER BY from_seq

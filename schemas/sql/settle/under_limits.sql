-- Ends of connections according to their idle limits.
WITH opened AS (
    SELECT *, coalesce(TRY_CAST(str_split(channel_id, '#')[-1] AS BIGINT), seq) AS opened_seq FROM ends
), limited AS (
    SELECT opened.*, limit_ms, limits.from_seq IS NOT NULL AND coalesce(limit_ms > $default_ms, TRUE) AS is_longer,
        coalesce(limit_ms < $default_ms AND silent_ms > limit_ms + $late_ms AND kind <> 'late_close', FALSE) AS is_late
    FROM opened LEFT JOIN limits
    ON opened_seq >= from_seq AND (until_seq IS NULL OR opened_seq < until_seq)
), due AS ( -- a frozen server closes idle connections when it thaws
    SELECT limited.*, coalesce(stalls.until_seq, seq - (silent_ms - limit_ms) * 1000000) AS due_seq
    FROM limited LEFT JOIN stalls ON is_late
    AND stalls.from_seq < seq - (silent_ms - limit_ms) * 1000000
    AND stalls.until_seq > seq - (silent_ms - limit_ms) * 1000000
), passed AS ( -- the timer had closed the connection, and the packet was lost
    SELECT *, is_late AND seq - due_seq > $late_ms * 1000000 AS is_passed,
        row_number() OVER (PARTITION BY channel_id ORDER BY seq) - 1 AS nth
    FROM due
), placed AS (
    SELECT *, if(is_passed, greatest(due_seq, $day_seq) + nth, seq) AS taken_seq FROM passed
)
SELECT * EXCLUDE (opened_seq, is_longer, is_late, is_passed, limit_ms, due_seq, nth, taken_seq) REPLACE (
    CASE
        WHEN is_passed THEN if(nth = 0, 'idle', 'close')
        WHEN kind <> 'late_close' THEN kind
        WHEN closed_by = 'namesrv' AND silent_ms BETWEEN limit_ms AND limit_ms + $late_ms THEN 'idle'
        ELSE 'close'
    END AS kind,
    if(is_passed, 'timer', closed_by) AS closed_by,
    if(is_passed, limit_ms, silent_ms) AS silent_ms,
    if(is_passed, make_timestamptz(taken_seq // 1000), effect_time) AS effect_time,
    taken_seq AS seq
)
FROM placed
WHERE CASE WHEN is_longer
    THEN NOT coalesce(closed_by = 'timer' AND (limit_ms IS NULL OR silent_ms < limit_ms), FALSE)
    ELSE kind <> 'late_close' END
ORDER BY taken_seq

-- Ends of connections as their idle limits have them.
WITH opened AS (
    SELECT *, coalesce(TRY_CAST(str_split(channel_id, '#')[-1] AS BIGINT), seq) AS opened_seq FROM ends
), limited AS (
    SELECT opened.*, limits.from_seq IS NOT NULL AS is_longer, limits.limit_ms
    FROM opened LEFT JOIN limits
    ON opened_seq >= from_seq AND (until_seq IS NULL OR opened_seq < until_seq)
)
SELECT * EXCLUDE (opened_seq, is_longer, limit_ms) REPLACE (CASE
    WHEN kind <> 'late_close' THEN kind
    WHEN closed_by = 'namesrv' AND silent_ms BETWEEN limit_ms AND limit_ms + $late_ms THEN 'idle'
    ELSE 'close' END AS kind)
FROM limited
WHERE CASE WHEN is_longer
    THEN NOT coalesce(closed_by = 'timer' AND (limit_ms IS NULL OR silent_ms < limit_ms), FALSE)
    ELSE kind <> 'late_close' END
ORDER BY seq

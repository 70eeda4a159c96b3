-- Evidence of silent broker connections about the idle limit. Closes after the default limit support the default. Connections used
-- after more silence support a longer limit, the one at which two or more were closed (the most frequent of several), or none. A
-- late close alone is no evidence: a frozen server closes idle connections late, and the packet of an earlier close may be lost.
WITH closes AS (
    SELECT seq, event_id, kind, silent_ms FROM ends
    WHERE closed_by = 'namesrv' AND channel_id IN (SELECT channel_id FROM owners)
), longer AS (
    SELECT silent_ms // 1000 * 1000 AS limit_ms FROM closes WHERE kind = 'late_close' AND silent_ms % 1000 <= $idle_late_ms
    GROUP BY limit_ms HAVING count(*) > 1 ORDER BY count(*) DESC, limit_ms LIMIT 1
)
SELECT seq, event_id, $default_ms AS value FROM closes WHERE kind = 'idle' AND silent_ms BETWEEN $early_ms AND $late_ms
UNION ALL
SELECT seq, event_id, (SELECT limit_ms FROM longer) FROM life WHERE kind = 'idle_limit_outlasted'

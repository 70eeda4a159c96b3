-- What silent connections of brokers say about the idle limit: closes at the end of the default one speak for it, connections that
-- were used after it for a longer one, at which two or more were closed (of several the usual one), or for none. A late close says
-- nothing by itself: a frozen server closes late what was idle, and the packet of an earlier close may have been lost.
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

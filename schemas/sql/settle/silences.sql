-- How brokers' connections ended that were silent for about the default limit or longer, and which did not end.
-- A frozen server closes late what was idle: that speaks neither for nor against.
SELECT seq, event_id, silent_ms, if(kind = 'idle', 'closed_on_time', 'closed_late') AS how
FROM ends WHERE closed_by = 'namesrv' AND channel_id IN (SELECT channel_id FROM owners)
    AND (kind = 'late_close' OR kind = 'idle' AND silent_ms BETWEEN $early_ms AND $late_ms)
UNION ALL
SELECT seq, event_id, NULL, 'used' FROM life WHERE kind = 'idle_limit_outlasted'

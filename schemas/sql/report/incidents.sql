-- Incidents of the time, the worst first.
SELECT * FROM incidents WHERE first_time < $b AND (last_time IS NULL OR last_time >= $a)
    AND ($namesrv IS NULL OR list_contains(namesrv_ids, $namesrv))
ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, first_time, code, subject

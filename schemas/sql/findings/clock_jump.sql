-- Recording clocks that went back: the order of the records contradicts their times.
-- meaning: the clock of a recording went back
-- severity: warning
-- remedy: Let NTP slew the recorder's clock instead of stepping it
SELECT
    'warning' AS severity, source_file AS subject, min(event_time) AS from_time, max(event_time) AS to_time,
    count(*) || if(count(*) = 1, ' step', ' steps') || ' back, the first: ' || arg_min(evidence, source_offset) AS detail,
    list(event_id ORDER BY source_offset)[1:20] AS evidence
FROM namesrv_events
WHERE kind = 'clock_went_back'
GROUP BY source_file

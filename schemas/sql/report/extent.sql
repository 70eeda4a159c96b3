-- Start and end of what is recorded, and the number of heartbeats.
SELECT min(first) AS first, max(last) AS last, sum(beats) AS beats FROM (
    SELECT min(effect_time) AS first, max(effect_time) AS last, count(*) AS beats FROM registrations WHERE {of_namesrv}
    UNION ALL SELECT min(effect_time), max(effect_time), count(*) FROM heartbeats WHERE {of_namesrv}
    UNION ALL SELECT min(effect_time), max(effect_time), 0 FROM route_observations WHERE {of_namesrv}
    UNION ALL SELECT min(effect_time), max(effect_time), 0 FROM event_outcomes WHERE {of_namesrv}
)

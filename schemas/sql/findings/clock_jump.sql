-- Recording clocks that went back: the order of what was recorded contradicts its times.
SELECT
    namesrv_id, 'CLOCK_JUMP' AS code, 'warning' AS severity, source_file AS subject,
    min(event_time) AS from_time, max(event_time) AS to_time,
    concat(count(*), ' steps back, the first: ', min_by(evidence, source_offset)) AS detail,
    slice(sort_array(collect_list(event_id)), 1, 20) AS evidence, day
FROM {clock_facts}
GROUP BY namesrv_id, source_file, day

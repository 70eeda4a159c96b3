-- What is known of the name servers, and when.
SELECT s.namesrv_id, epoch_us(from_time) AS begun, epoch_us(until) AS ended, s.is_covered, s.coverage
FROM (SELECT from_time, until, unnest(said) AS s FROM coverage_spans)
WHERE (s.namesrv_id = $namesrv OR $namesrv IS NULL) AND (until IS NULL OR until > $a) AND (from_time IS NULL OR from_time < $b)
ORDER BY ALL

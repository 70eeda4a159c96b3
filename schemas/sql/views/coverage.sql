-- What is recorded of each name server: a row for each time in which the same was known of it; beyond the last, nothing is
-- columns: namesrv_id
-- column from_time: Start, inclusive
-- column to_time: End, exclusive; of the last one just behind the last event or answer that was read
-- column recorded: FALSE: a gap, of which nothing is recorded
-- column running: Whether the name server was running; NULL in a gap
-- column known_from: Since when all of its routes are known; NULL: only what has shown itself is, as coverage says
-- column coverage: The same in words
SELECT
    n.c.namesrv_id, n.from_time, n.until, n.c.recorded, n.c.running, IF(n.c.known, n.from_time, NULL), n.c.coverage
FROM (SELECT s.from_time, s.until, explode(s.said) AS c FROM coverage_spans AS s) AS n
WHERE n.c.is_covered

-- What is recorded of each name server: one row for each time in which its coverage was the same; nothing is recorded outside
-- columns: namesrv_id
-- column from_time: Start, inclusive
-- column to_time: End, exclusive; for the last row just behind the last event or answer that was read
-- column recorded: FALSE in a gap, of which nothing is recorded
-- column running: Whether the name server was running; NULL in a gap
-- column known_from: Since when all of its routes are known; NULL: only part is known, as coverage says
-- column coverage: This row in words
SELECT
    n.c.namesrv_id, n.from_time, n.until, n.c.recorded, n.c.running, IF(n.c.known, n.from_time, NULL), n.c.coverage
FROM (SELECT s.from_time, s.until, explode(s.said) AS c FROM coverage_spans AS s) AS n
WHERE n.c.is_covered

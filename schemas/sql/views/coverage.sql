CREATE OR REPLACE TEMPORARY VIEW coverage (
    namesrv_id COMMENT 'Name server',
    from_time COMMENT 'Start, inclusive',
    to_time COMMENT 'End, exclusive; of the last one just behind the last event or answer that was read',
    recorded COMMENT 'FALSE: a gap, of which nothing is recorded',
    running COMMENT 'Whether the name server was running; NULL in a gap',
    known_from COMMENT 'Since when all of its routes are known; NULL: only what has shown itself is, as coverage says',
    coverage COMMENT 'The same in words'
)
COMMENT 'What is recorded of each name server: a row for each time in which the same was known of it; beyond the last, nothing is'
AS
SELECT
    n.c.namesrv_id, n.from_time, n.until, n.c.recorded, n.c.running, IF(n.c.known, n.from_time, NULL), n.c.coverage
FROM (SELECT s.from_time, s.until, explode(s.said) AS c FROM coverage_spans AS s) AS n
WHERE n.c.is_covered

-- What is known of every name server at two instants
-- parameter t1 TIMESTAMP: First instant; an error if no name server is recorded then
-- parameter t2 TIMESTAMP: Second instant, likewise
-- columns: namesrv_id
-- column is_covered BOOLEAN: FALSE: one of the instants lies outside the recording of this name server
-- column known BOOLEAN: TRUE: all of its routes are known at both instants
-- column coverage STRING: This row in words
-- column nothing STRING: Always NULL
SELECT
    a.namesrv_id, a.is_covered AND b.is_covered, a.known AND b.known,
    CASE
        WHEN a.known AND b.known THEN 'known in full'
        WHEN b.known THEN concat('at the first instant ', a.coverage)
        WHEN a.known THEN concat('at the second instant ', b.coverage)
        ELSE concat('at the first instant ', a.coverage, '; at the second ', b.coverage)
    END,
    a.nothing
FROM coverage_at(coverage_between.t1) AS a
JOIN coverage_at(coverage_between.t2) AS b ON b.namesrv_id = a.namesrv_id

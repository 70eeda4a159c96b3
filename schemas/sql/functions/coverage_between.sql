CREATE OR REPLACE TEMPORARY FUNCTION coverage_between(
    t1 TIMESTAMP COMMENT 'First instant; an error if no name server is recorded then',
    t2 TIMESTAMP COMMENT 'Second instant, likewise'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    is_covered BOOLEAN COMMENT 'FALSE: one of the instants lies outside of what is recorded of it',
    known BOOLEAN COMMENT 'All of its routes are known at both',
    coverage STRING COMMENT 'The same in words',
    nothing STRING COMMENT 'NULL'
)
COMMENT 'What is known of every name server at two instants'
RETURN
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

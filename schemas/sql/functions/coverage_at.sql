CREATE OR REPLACE TEMPORARY FUNCTION coverage_at(
    t TIMESTAMP COMMENT 'Instant; an error if no name server is recorded then'
)
RETURNS TABLE(
    namesrv_id STRING COMMENT 'Name server',
    is_covered BOOLEAN COMMENT 'FALSE: t lies outside of what is recorded of it',
    recorded BOOLEAN COMMENT 'FALSE: t lies in a gap, or outside',
    known BOOLEAN COMMENT 'All of its routes at t are known',
    known_since TIMESTAMP COMMENT 'What has shown itself since then is known in any case',
    coverage STRING COMMENT 'The same in words',
    nothing STRING COMMENT 'NULL'
)
COMMENT 'What is known of every name server at t'
RETURN
    SELECT n.c.namesrv_id, n.c.is_covered, n.c.recorded, n.c.known, n.c.known_since, n.c.coverage, n.c.nothing
    FROM (
        -- in lists of one, past which no engine moves a condition: it would be looked at before the error is raised
        SELECT explode(s.said) AS c
        FROM coverage_spans AS s
        WHERE CASE
            WHEN coverage_at.t IS NOT NULL AND (coverage_at.t < s.from_time OR coverage_at.t >= s.until) THEN FALSE
            WHEN s.nowhere OR coverage_at.t IS NULL THEN raise_error(concat(
                'nothing is recorded at ', coalesce(date_format(coverage_at.t, 'yyyy-MM-dd HH:mm:ss'), 'NULL'), ' UTC; ', s.recorded
            ))
            ELSE TRUE
        END
    ) AS n

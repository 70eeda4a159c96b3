-- What is known of every name server at t
-- parameter t TIMESTAMP: Instant; an error if no name server is recorded then
-- columns: namesrv_id
-- column is_covered BOOLEAN: FALSE: t lies outside the recording of this name server
-- column recorded BOOLEAN: FALSE: t lies in a gap, or outside the recording
-- column known BOOLEAN: TRUE: all of its routes at t are known
-- column known_since TIMESTAMP: Whatever an event or answer has shown since then is known in any case
-- column coverage STRING: This row in words
-- column nothing STRING: Always NULL
SELECT n.c.namesrv_id, n.c.is_covered, n.c.recorded, n.c.known, n.c.known_since, n.c.coverage, n.c.nothing
FROM (
    -- in lists of one, because engines move no condition past them: a condition evaluated earlier would hide the error
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

-- Where one map is to be looked at, what came and went in it, in order; what was carried came before.
WITH edges AS (
    SELECT {own} AS own, {inner} AS member, entered_at AS position, 0 AS seq, 0 AS what FROM history WHERE opened_at.seq < $from_seq
    UNION ALL SELECT {own}, {inner}, opened_at, opened_at.seq, 2 FROM history WHERE opened_at.seq >= $from_seq
    UNION ALL SELECT {own}, {inner}, closed_at, closed_at.seq, 1 FROM history WHERE closed_at IS NOT NULL
), happened AS (
    SELECT own, list({{'key': member, 'what': what, 'seq': seq}} ORDER BY position, what, member) AS edges
    FROM edges SEMI JOIN crowded ON edges.own IS NOT DISTINCT FROM crowded.own GROUP BY own
)
SELECT list(happened.own ORDER BY happened.own) AS keys
FROM happened LEFT JOIN told ON told.outer_key IS NOT DISTINCT FROM happened.own
GROUP BY edges, told.capacity, told.keys ORDER BY keys

-- Runs, those of `absent` with all that their first heartbeats say, of which `firsts` has the rows.
SELECT runs.* FROM runs ANTI JOIN absent USING (seq)
UNION ALL BY NAME
SELECT firsts.* REPLACE (runs.effect_us AS effect_us), true AS is_run
FROM absent JOIN runs USING (seq) JOIN firsts ON firsts.seq = runs.seq AND firsts.kind = runs.kind

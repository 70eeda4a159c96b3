CREATE OR REPLACE TEMPORARY VIEW restatements
COMMENT 'Slices that a published run has changed; a run that was refused restated nothing'
AS
SELECT r.* FROM restatements_committed AS r
LEFT SEMI JOIN (SELECT run_id FROM runs WHERE status = 'published') AS published ON published.run_id = r.run_id

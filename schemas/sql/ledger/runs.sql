CREATE OR REPLACE TEMPORARY VIEW runs
COMMENT 'The ledger, up to the run as of which is read'
AS
SELECT r.* FROM runs_committed AS r WHERE r.finished_time <= (SELECT finished_time FROM known_run)

-- The codes of findings: what each means, how severe it is, from when on it is told, and what to do
-- column code: Code of a finding
-- column meaning: What it is told of
-- column severity: How severe it is
-- column threshold: From when on it is told, by its name in conf/ [findings], and the default; NULL where nothing can be set
-- column remedy: What to do
-- column is_static: It is a condition of a cluster, told in one row
-- column runbook: Where it is described: a page of the documentation, and its section
SELECT c.code, c.meaning, c.severity, c.threshold, c.remedy, c.is_static, concat('docs/findings.md#', lower(c.code))
FROM VALUES
    {codes}
    AS c(code, meaning, severity, threshold, remedy, is_static)

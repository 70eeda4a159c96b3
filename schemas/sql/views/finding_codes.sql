-- The codes of findings: what each means, how severe it is, its threshold, and what to do
-- column code: Code of a finding
-- column meaning: What a finding of this code says
-- column severity: critical, warning or info, and when
-- column threshold: Setting in conf/ [findings] that decides when it is reported, with its default; NULL: none
-- column remedy: What to do
-- column is_static: TRUE: a condition of a cluster, reported in one row
-- column runbook: Page and section of the documentation that describe it
SELECT c.code, c.meaning, c.severity, c.threshold, c.remedy, c.is_static, concat('docs/findings.md#', lower(c.code))
FROM VALUES
    {codes}
    AS c(code, meaning, severity, threshold, remedy, is_static)

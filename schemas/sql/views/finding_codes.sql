CREATE OR REPLACE TEMPORARY VIEW finding_codes (
    code COMMENT 'Code of a finding',
    meaning COMMENT 'What it is told of',
    severity COMMENT 'How severe it is',
    threshold COMMENT 'From when on it is told, by its name in conf/ [findings], and the default; NULL where nothing can be set',
    remedy COMMENT 'What to do',
    is_static COMMENT 'It is a condition of a cluster, told in one row',
    runbook COMMENT 'Where it is described: a page of the documentation, and its section'
)
COMMENT 'The codes of findings: what each means, how severe it is, from when on it is told, and what to do'
AS
SELECT c.code, c.meaning, c.severity, c.threshold, c.remedy, c.is_static, concat('docs/findings.md#', lower(c.code))
FROM VALUES
    {codes}
    AS c(code, meaning, severity, threshold, remedy, is_static)

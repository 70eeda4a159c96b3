-- One row for all findings with one cause: one event began them; or they have one code and subject and began on several name
-- servers within two minutes; or they are one condition of a cluster
-- column incident_id: Deterministic id from code, subject and start, 32 hex digits
-- column code: Code from the catalogue: the most severe of codes, the first of equally severe ones
-- column codes: All codes, in order
-- column severity: Severity of its worst finding: critical, warning or info
-- column state: ongoing or resolved
-- column subject: Broker, topic, cluster or key concerned; if several, the first and how many more
-- column namesrvs: Number of name servers that it was seen on
-- column namesrv_ids: These name servers, in order
-- column brokers: Number of broker names affected; above ten a lower bound
-- column broker_names: First ten of these broker names, by name
-- column topics: Number of topics affected; above ten a lower bound
-- column topic_names: First ten of these topics, by name
-- column first_time: Start of its first finding with this code
-- column last_time: When the last of its findings ended; NULL = ongoing
-- column root_event: event_id that began it, on the first name server that saw it
-- column detail: What happened, in words, with the first few brokers or topics affected
-- column remedy: What to do
-- column runbook: Page and section of the documentation that describe the code
-- column findings: Number of findings in this incident
WITH weighted AS (
    SELECT
        f.*, c.is_static, c.remedy,
        CASE f.severity WHEN 'critical' THEN 3 WHEN 'warning' THEN 2 ELSE 1 END AS weight,
        IF(coalesce(c.is_static, FALSE) OR timestampdiff(
            SECOND, lag(f.from_time) OVER (PARTITION BY f.code, f.subject ORDER BY f.from_time, f.namesrv_id), f.from_time
        ) < 120, 0, 1) AS begins
    FROM findings AS f
    LEFT JOIN finding_codes AS c ON c.code = f.code
), numbered AS (
    SELECT
        t.*, sum(t.begins) OVER (
            PARTITION BY t.code, t.subject ORDER BY t.from_time, t.namesrv_id ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM weighted AS t
), begun AS (
    SELECT
        n.*, min(n.event) OVER (PARTITION BY n.code, n.subject, n.number) AS wave
    FROM (
        SELECT
            x.*, IF(
                coalesce(x.is_static, FALSE), concat_ws(' ', x.code, x.subject),
                coalesce(get(x.evidence, 0), concat_ws(' ', x.code, x.subject, x.number))
            ) AS event
        FROM numbered AS x
    ) AS n
), linked AS (
    SELECT b.*, min(b.wave) OVER (PARTITION BY b.event) AS link FROM begun AS b
), rooted AS (
    -- what one event began, and what began with it elsewhere, by another event there
    SELECT l.*, min(l.link) OVER (PARTITION BY l.code, l.subject, l.number) AS root FROM linked AS l
), headed AS (
    SELECT
        r.*, first(r.code) OVER (PARTITION BY r.root ORDER BY r.weight DESC, r.from_time, r.namesrv_id, r.code) AS headline
    FROM rooted AS r
), together AS (
    SELECT
        r.root, min(IF(r.code = r.headline, r.from_time, NULL)) AS first_time, IF(count(r.to_time) = count(*), max(r.to_time), NULL) AS last_time,
        max(r.weight) AS weight, count(*) AS findings,
        array_sort(collect_set(r.code)) AS codes, array_sort(collect_set(r.namesrv_id)) AS namesrv_ids,
        max(r.brokers) AS brokers, array_sort(array_distinct(flatten(collect_list(r.broker_names)))) AS broker_names,
        max(r.topics) AS topics, array_sort(array_distinct(flatten(collect_list(r.topic_names)))) AS topic_names,
        min_by(get(r.evidence, 0), struct(r.from_time, r.namesrv_id, r.code, r.subject)) AS root_event,
        min_by(
            struct(r.code, r.subject, r.detail, r.remedy, r.from_time), struct(-r.weight, r.from_time, r.namesrv_id, r.code, r.subject)
        ) AS shown
    FROM headed AS r
    GROUP BY r.root
)
SELECT
    md5(concat_ws(' ', g.shown.code, g.shown.subject, CAST(unix_micros(g.shown.from_time) AS STRING))), g.shown.code, g.codes,
    CASE g.weight WHEN 3 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END,
    IF(g.last_time IS NULL, 'ongoing', 'resolved'), g.shown.subject, size(g.namesrv_ids), g.namesrv_ids,
    greatest(g.brokers, size(g.broker_names)), slice(g.broker_names, 1, 10),
    greatest(g.topics, size(g.topic_names)), slice(g.topic_names, 1, 10),
    g.first_time, g.last_time, g.root_event, g.shown.detail, g.shown.remedy,
    concat('docs/findings.md#', lower(g.shown.code)), g.findings
FROM together AS g

CREATE OR REPLACE TEMPORARY VIEW incidents (
    incident_id COMMENT 'Deterministic id from code, subject and start, 32 hex digits',
    code COMMENT 'Code from the catalogue: of several the most severe, and of those the first',
    codes COMMENT 'All codes, in order',
    severity COMMENT 'The worst of its findings: critical, warning or info',
    state COMMENT 'ongoing or resolved',
    subject COMMENT 'Broker, topic, cluster or key concerned; of several the first, and how many more',
    namesrvs COMMENT 'How many name servers saw it',
    namesrv_ids COMMENT 'Those, in order',
    brokers COMMENT 'How many broker names it touches; of more than ten at least so many',
    broker_names COMMENT 'The first ten of them, by name',
    topics COMMENT 'How many topics it touches; of more than ten at least so many',
    topic_names COMMENT 'The first ten of them, by name',
    first_time COMMENT 'When what its code tells of began: the first of its findings with that code',
    last_time COMMENT 'When all were over; NULL = ongoing',
    root_event COMMENT 'event_id that began it, on the first name server that saw it',
    detail COMMENT 'In words, with the first few of what it touches',
    remedy COMMENT 'What to do',
    runbook COMMENT 'Where this is described: a page of the documentation, and its section',
    findings COMMENT 'How many findings it puts together'
)
COMMENT 'Findings with one cause as one row: begun by one event; or of one code and subject, begun on several name servers within two minutes; or a condition of a cluster'
AS
WITH told AS (
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
    FROM told AS t
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
        min_by(get(r.evidence, 0), struct(r.from_time, r.namesrv_id)) AS root_event,
        min_by(
            struct(r.code, r.subject, r.detail, r.remedy, r.from_time), struct(-r.weight, r.from_time, r.namesrv_id, r.code)
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

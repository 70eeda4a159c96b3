CREATE OR REPLACE TEMPORARY VIEW incidents (
    incident_id COMMENT 'Deterministic id from code, subject and start, 32 hex digits',
    code COMMENT 'Code from the catalogue',
    severity COMMENT 'The worst of its findings: critical, warning or info',
    state COMMENT 'ongoing or resolved',
    subject COMMENT 'Broker, topic, cluster or key concerned; of several the first, and how many more',
    namesrvs COMMENT 'How many name servers saw it',
    namesrv_ids COMMENT 'Those, in order',
    first_time COMMENT 'When the first of them did',
    last_time COMMENT 'When it was over on the last of them; NULL = ongoing',
    root_event COMMENT 'event_id that began it, on the first of them',
    detail COMMENT 'In words, with the first few of what it touches',
    remedy COMMENT 'What to do'
)
COMMENT 'Findings with one cause on several name servers as one row: same code and subject, begun within two minutes of another'
AS
WITH told AS (
    SELECT
        f.*,
        IF(timestampdiff(
            SECOND, lag(f.from_time) OVER (PARTITION BY f.code, f.subject ORDER BY f.from_time, f.namesrv_id), f.from_time
        ) < 120, 0, 1) AS begins
    FROM findings AS f
), numbered AS (
    SELECT
        t.*, sum(t.begins) OVER (
            PARTITION BY t.code, t.subject ORDER BY t.from_time, t.namesrv_id ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM told AS t
), together AS (
    SELECT
        n.code, n.subject, n.number, min(n.from_time) AS first_time,
        IF(count(n.to_time) = count(*), max(n.to_time), NULL) AS last_time,
        max(CASE n.severity WHEN 'critical' THEN 3 WHEN 'warning' THEN 2 ELSE 1 END) AS worst,
        array_sort(collect_set(n.namesrv_id)) AS namesrv_ids,
        min_by(get(n.evidence, 0), struct(n.from_time, n.namesrv_id)) AS root_event,
        min_by(n.detail, struct(n.from_time, n.namesrv_id)) AS detail
    FROM numbered AS n
    GROUP BY n.code, n.subject, n.number
)
SELECT
    md5(concat_ws(' ', g.code, g.subject, CAST(unix_micros(g.first_time) AS STRING))), g.code,
    CASE g.worst WHEN 3 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END,
    IF(g.last_time IS NULL, 'ongoing', 'resolved'), g.subject, size(g.namesrv_ids), g.namesrv_ids, g.first_time, g.last_time,
    g.root_event, g.detail, c.remedy
FROM together AS g
LEFT JOIN finding_codes AS c ON c.code = g.code

CREATE OR REPLACE TEMPORARY VIEW incidents AS
SELECT * FROM (
WITH told AS (
  SELECT
    f.*,
    c.is_static,
    c.remedy,
    CASE f.severity WHEN 'critical' THEN 3 WHEN 'warning' THEN 2 ELSE 1 END AS weight,
    CASE
      WHEN COALESCE(c.is_static, FALSE)
      OR DATE_SUB(
        'SECOND',
        LAG(f.from_time) OVER (
          PARTITION BY f.code, f.subject
          ORDER BY f.from_time NULLS FIRST, f.namesrv_id NULLS FIRST
        ),
        f.from_time
      ) < 120
      THEN 0
      ELSE 1
    END AS begins
  FROM findings AS f
  LEFT JOIN finding_codes AS c
    ON c.code = f.code
), numbered AS (
  SELECT
    t.*,
    SUM(t.begins) OVER (
      PARTITION BY t.code, t.subject
      ORDER BY t.from_time NULLS FIRST, t.namesrv_id NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS number
  FROM told AS t
), begun AS (
  SELECT
    n.*,
    MIN(n.event) OVER (PARTITION BY n.code, n.subject, n.number) AS wave
  FROM (
    SELECT
      x.*,
      CASE
        WHEN COALESCE(x.is_static, FALSE)
        THEN CONCAT_WS(' ', x.code, x.subject)
        ELSE COALESCE(x.evidence[1], CONCAT_WS(' ', x.code, x.subject, x.number))
      END AS event
    FROM numbered AS x
  ) AS n
), linked AS (
  SELECT
    b.*,
    MIN(b.wave) OVER (PARTITION BY b.event) AS link
  FROM begun AS b
), rooted AS (
  /* what one event began, and what began with it elsewhere, by another event there */
  SELECT
    l.*,
    MIN(l.link) OVER (PARTITION BY l.code, l.subject, l.number) AS root
  FROM linked AS l
), headed AS (
  SELECT
    r.*,
    FIRST(r.code) OVER (
      PARTITION BY r.root
      ORDER BY r.weight DESC, r.from_time NULLS FIRST, r.namesrv_id NULLS FIRST, r.code NULLS FIRST
    ) AS headline
  FROM rooted AS r
), together AS (
  SELECT
    r.root,
    MIN(CASE WHEN r.code = r.headline THEN r.from_time ELSE NULL END) AS first_time,
    CASE WHEN COUNT(r.to_time) = COUNT(*) THEN MAX(r.to_time) ELSE NULL END AS last_time,
    MAX(r.weight) AS weight,
    COUNT(*) AS findings,
    LIST_SORT(LIST(DISTINCT r.code) FILTER(WHERE
      NOT r.code IS NULL)) AS codes,
    LIST_SORT(LIST(DISTINCT r.namesrv_id) FILTER(WHERE
      NOT r.namesrv_id IS NULL)) AS namesrv_ids,
    MAX(r.brokers) AS brokers,
    LIST_SORT(
      LIST_DISTINCT(
        FLATTEN(COALESCE(ARRAY_AGG(r.broker_names) FILTER(WHERE r.broker_names IS NOT NULL), []))
      )
    ) AS broker_names,
    MAX(r.topics) AS topics,
    LIST_SORT(
      LIST_DISTINCT(
        FLATTEN(COALESCE(ARRAY_AGG(r.topic_names) FILTER(WHERE r.topic_names IS NOT NULL), []))
      )
    ) AS topic_names,
    ARG_MIN_NULL(r.evidence[1], {'from_time': r.from_time, 'namesrv_id': r.namesrv_id}) AS root_event,
    ARG_MIN_NULL(
      {'code': r.code, 'subject': r.subject, 'detail': r.detail, 'remedy': r.remedy, 'from_time': r.from_time},
      {'col1': -r.weight, 'from_time': r.from_time, 'namesrv_id': r.namesrv_id, 'code': r.code}
    ) AS shown
  FROM headed AS r
  GROUP BY
    r.root
)
SELECT
  MD5(
    CONCAT_WS(' ', g.shown.code, g.shown.subject, CAST(EPOCH_US(g.shown.from_time) AS TEXT))
  ),
  g.shown.code,
  g.codes,
  CASE g.weight WHEN 3 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END,
  CASE WHEN g.last_time IS NULL THEN 'ongoing' ELSE 'resolved' END,
  g.shown.subject,
  ARRAY_LENGTH(g.namesrv_ids),
  g.namesrv_ids,
  GREATEST(g.brokers, ARRAY_LENGTH(g.broker_names)),
  ARRAY_SLICE(g.broker_names, 1, 10),
  GREATEST(g.topics, ARRAY_LENGTH(g.topic_names)),
  ARRAY_SLICE(g.topic_names, 1, 10),
  g.first_time,
  g.last_time,
  g.root_event,
  g.shown.detail,
  g.shown.remedy,
  g.findings
FROM together AS g
) AS made(incident_id, code, codes, severity, state, subject, namesrvs, namesrv_ids, brokers, broker_names, topics, topic_names, first_time, last_time, root_event, detail, remedy, findings)

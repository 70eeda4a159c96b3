CREATE OR REPLACE TEMPORARY VIEW incidents AS
SELECT * FROM (
WITH told AS (
  SELECT
    f.*,
    CASE
      WHEN DATE_SUB(
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
), numbered AS (
  SELECT
    t.*,
    SUM(t.begins) OVER (
      PARTITION BY t.code, t.subject
      ORDER BY t.from_time NULLS FIRST, t.namesrv_id NULLS FIRST
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS number
  FROM told AS t
), together AS (
  SELECT
    n.code,
    n.subject,
    n.number,
    MIN(n.from_time) AS first_time,
    CASE WHEN COUNT(n.to_time) = COUNT(*) THEN MAX(n.to_time) ELSE NULL END AS last_time,
    MAX(CASE n.severity WHEN 'critical' THEN 3 WHEN 'warning' THEN 2 ELSE 1 END) AS worst,
    LIST_SORT(LIST(DISTINCT n.namesrv_id) FILTER(WHERE
      NOT n.namesrv_id IS NULL)) AS namesrv_ids,
    ARG_MIN_NULL(n.evidence[1], {'from_time': n.from_time, 'namesrv_id': n.namesrv_id}) AS root_event,
    ARG_MIN_NULL(n.detail, {'from_time': n.from_time, 'namesrv_id': n.namesrv_id}) AS detail
  FROM numbered AS n
  GROUP BY
    n.code,
    n.subject,
    n.number
)
SELECT
  MD5(CONCAT_WS(' ', g.code, g.subject, CAST(EPOCH_US(g.first_time) AS TEXT))),
  g.code,
  CASE g.worst WHEN 3 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END,
  CASE WHEN g.last_time IS NULL THEN 'ongoing' ELSE 'resolved' END,
  g.subject,
  ARRAY_LENGTH(g.namesrv_ids),
  g.namesrv_ids,
  g.first_time,
  g.last_time,
  g.root_event,
  g.detail,
  c.remedy
FROM together AS g
LEFT JOIN finding_codes AS c
  ON c.code = g.code
) AS made(incident_id, code, severity, state, subject, namesrvs, namesrv_ids, first_time, last_time, root_event, detail, remedy)

CREATE OR REPLACE TEMPORARY MACRO route_diff(_t1, _t2) AS TABLE
SELECT * FROM (
WITH covered AS (
  SELECT
    *
  FROM COVERAGE_BETWEEN(CAST(_t1 AS TIMESTAMPTZ), CAST(_t2 AS TIMESTAMPTZ))
)
SELECT
  n.namesrv_id,
  n.nothing,
  n.nothing,
  'not known',
  n.nothing,
  n.nothing,
  n.nothing,
  n.known,
  n.coverage
FROM covered AS n
WHERE
  NOT n.known
UNION ALL
SELECT
  d.namesrv_id,
  d.topic,
  d.broker_name,
  d.what,
  d.before,
  d.after,
  ARG_MAX_NULL(c.event_id, c.position),
  MAX(c.known),
  MAX(c.coverage)
FROM (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    part,
    CASE
      WHEN part <> 'queues'
      THEN part
      WHEN MAX(before) IS NULL
      THEN 'appeared'
      WHEN MAX(after) IS NULL
      THEN 'vanished'
      ELSE part
    END AS what,
    MAX(before) AS before,
    MAX(after) AS after
  FROM (
    SELECT
      namesrv_id,
      topic,
      broker_name,
      part,
      text AS before,
      CAST(NULL AS TEXT) AS after
    FROM ROUTE_TEXT_ROWS_AT(CAST(_t1 AS TIMESTAMPTZ))
    UNION ALL
    SELECT
      namesrv_id,
      topic,
      broker_name,
      part,
      CAST(NULL AS TEXT),
      text
    FROM ROUTE_TEXT_ROWS_AT(CAST(_t2 AS TIMESTAMPTZ))
  )
  GROUP BY
    namesrv_id,
    topic,
    broker_name,
    part
  HAVING
    NOT MAX(before) IS NOT DISTINCT FROM MAX(after)
    AND /* the addresses and the order conf of queues that came or went are no change of their own */ (
      part = 'queues' OR (
        NOT MAX(before) IS NULL AND NOT MAX(after) IS NULL
      )
    )
) AS d
/* with a row for each part that says what is known: Spark refuses outer joins with rows that depend on t1 */
JOIN (
  SELECT
    namesrv_id,
    part,
    topic,
    broker_name,
    event_id,
    position,
    CAST(NULL AS BOOLEAN) AS known,
    CAST(NULL AS TEXT) AS coverage
  FROM ROUTE_CAUSE_ROWS_BETWEEN(CAST(_t1 AS TIMESTAMPTZ), CAST(_t2 AS TIMESTAMPTZ))
  UNION ALL
  SELECT
    namesrv_id,
    UNNEST(['queues', 'addresses', 'order_topic_conf']),
    nothing,
    nothing,
    nothing,
    NULL,
    known,
    coverage
  FROM covered
  WHERE
    is_covered
) AS c
  ON c.namesrv_id = d.namesrv_id
  AND c.part = d.part
  AND (
    c.event_id IS NULL
    OR (
      (
        c.part = 'addresses' OR c.topic IS NOT DISTINCT FROM d.topic
      )
      AND (
        c.part = 'order_topic_conf' OR c.broker_name IS NOT DISTINCT FROM d.broker_name
      )
    )
  )
GROUP BY
  d.namesrv_id,
  d.topic,
  d.broker_name,
  d.what,
  d.before,
  d.after
HAVING
  NOT MAX(c.coverage) IS NULL
) AS made(namesrv_id, topic, broker_name, what, before, after, caused_by, known, coverage)

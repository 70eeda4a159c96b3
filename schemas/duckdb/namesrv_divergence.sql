CREATE OR REPLACE TEMPORARY VIEW namesrv_divergence AS
SELECT * FROM (
WITH moves AS (
  SELECT
    topic,
    broker_name,
    valid_from AS "at",
    opened_by AS event_id,
    1 AS step
  FROM topic_queue_history
  UNION ALL
  SELECT
    topic,
    broker_name,
    valid_to,
    closed_by,
    -1
  FROM topic_queue_history
  WHERE
    NOT valid_to IS NULL
), steps AS (
  /* a row that goes on with other queues is no step */
  SELECT
    topic,
    broker_name,
    "at",
    MIN(event_id) AS event_id,
    SUM(step) AS step
  FROM moves
  GROUP BY
    topic,
    broker_name,
    "at"
  HAVING
    SUM(step) <> 0
), states AS (
  SELECT
    s.topic,
    s.broker_name,
    s."at" AS from_time,
    LEAD(s."at") OVER in_time AS to_time,
    SUM(s.step) OVER in_time AS known,
    s.event_id AS opened_by,
    LEAD(s.event_id) OVER in_time AS closed_by
  FROM steps AS s
  WINDOW in_time AS (PARTITION BY s.topic, s.broker_name ORDER BY s."at" NULLS FIRST)
)
SELECT
  d.topic,
  d.broker_name,
  d.from_time,
  d.to_time,
  LIST_SORT(LIST(DISTINCT h.namesrv_id) FILTER(WHERE
    NOT h.namesrv_id IS NULL)),
  n.name_servers,
  d.opened_by,
  d.closed_by
FROM states AS d
CROSS JOIN (
  SELECT
    COUNT(DISTINCT namesrv_id) AS name_servers
  FROM slice_days
) AS n
JOIN topic_queue_history AS h
  ON h.topic IS NOT DISTINCT FROM d.topic
  AND h.broker_name IS NOT DISTINCT FROM d.broker_name
  AND h.valid_from <= d.from_time
  AND (
    h.valid_to IS NULL OR h.valid_to > d.from_time
  )
WHERE
  d.known > 0 AND d.known < n.name_servers
GROUP BY
  d.topic,
  d.broker_name,
  d.from_time,
  d.to_time,
  n.name_servers,
  d.opened_by,
  d.closed_by
) AS made(topic, broker_name, from_time, to_time, known_to, name_servers, opened_by, closed_by)

WITH routed AS (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    valid_from,
    opened_by
  FROM TOPIC_QUEUE_TABLE_AT($t)
  WHERE
    NOT opened_by IS NULL
), known AS (
  SELECT
    topic,
    broker_name,
    ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT namesrv_id) FILTER(WHERE
      NOT namesrv_id IS NULL)), ', ') AS known_to,
    MIN(valid_from) AS known_since,
    ARG_MIN_NULL(opened_by, valid_from) AS known_by
  FROM routed
  GROUP BY
    topic,
    broker_name
), lost AS (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    MAX(valid_to) AS lacking_since,
    ARG_MAX_NULL(closed_by, valid_to) AS lacking_by
  FROM topic_queue_history
  WHERE
    valid_to <= $t
  GROUP BY
    namesrv_id,
    topic,
    broker_name
)
SELECT
  k.topic,
  k.broker_name,
  n.namesrv_id,
  k.known_to,
  k.known_since,
  k.known_by,
  l.lacking_since,
  l.lacking_by,
  n.known
FROM known AS k
CROSS JOIN (
  SELECT
    namesrv_id,
    known
  FROM COVERAGE_AT($t)
  WHERE
    is_covered
) AS n
ANTI JOIN routed AS r
  ON r.namesrv_id = n.namesrv_id
  AND r.topic = k.topic
  AND r.broker_name = k.broker_name
LEFT JOIN lost AS l
  ON l.namesrv_id = n.namesrv_id
  AND l.topic = k.topic
  AND l.broker_name = k.broker_name
ORDER BY
  k.topic NULLS FIRST,
  k.broker_name NULLS FIRST,
  n.namesrv_id NULLS FIRST

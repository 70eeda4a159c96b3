SELECT
  r.topic,
  MIN(r.namesrv_id) AS namesrv_id,
  ARRAY_TO_STRING(
    LIST_SORT(LIST(DISTINCT r.broker_name) FILTER(WHERE
      NOT r.broker_name IS NULL)),
    ', '
  ) AS brokers,
  MIN(r.valid_from) AS since,
  ARG_MIN_NULL(r.opened_by, r.valid_from) AS event_id,
  (
    SELECT
      MIN(known)
    FROM COVERAGE_AT($t)
  ) AS known
FROM TOPIC_QUEUE_TABLE_AT($t) AS r
WHERE
  NOT r.opened_by IS NULL
GROUP BY
  r.topic
HAVING
  COUNT(DISTINCT r.namesrv_id) = 1
  AND (
    SELECT
      COUNT(*)
    FROM COVERAGE_AT($t)
    WHERE
      is_covered
  ) > 1
ORDER BY
  r.topic NULLS FIRST

WITH routed AS (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    valid_from,
    opened_by,
    'perm ' || perm || ', read ' || read_queue_nums || ', write ' || write_queue_nums || ', flag ' || topic_sys_flag AS value
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
), held AS (
  SELECT
    topic,
    broker_name,
    value,
    ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT namesrv_id) FILTER(WHERE
      NOT namesrv_id IS NULL)), ', ') AS known_to,
    COUNT(*) AS servers,
    MIN(valid_from) AS known_since,
    ARG_MIN_NULL(opened_by, valid_from) AS known_by
  FROM routed
  GROUP BY
    topic,
    broker_name,
    value
), usual AS (
  SELECT
    topic,
    broker_name,
    ARG_MAX_NULL(
      {'value': value, 'known_to': known_to, 'known_since': known_since, 'known_by': known_by},
      {'servers': servers, 'col2': -EPOCH_US(known_since), 'value': value}
    ) AS most
  FROM held
  GROUP BY
    topic,
    broker_name
  HAVING
    COUNT(*) > 1
), servers AS (
  SELECT
    namesrv_id,
    known
  FROM COVERAGE_AT($t)
  WHERE
    is_covered
)
SELECT
  k.topic,
  k.broker_name,
  n.namesrv_id,
  'missing' AS differs,
  k.known_to,
  k.known_since,
  k.known_by,
  l.lacking_since,
  l.lacking_by,
  n.known
FROM known AS k
CROSS JOIN servers AS n
ANTI JOIN routed AS r
  ON r.namesrv_id = n.namesrv_id
  AND r.topic = k.topic
  AND r.broker_name = k.broker_name
LEFT JOIN lost AS l
  ON l.namesrv_id = n.namesrv_id
  AND l.topic = k.topic
  AND l.broker_name = k.broker_name
UNION ALL
SELECT
  r.topic,
  r.broker_name,
  r.namesrv_id,
  r.value || ' instead of ' || u.most.value,
  u.most.known_to,
  u.most.known_since,
  u.most.known_by,
  r.valid_from,
  r.opened_by,
  n.known
FROM routed AS r
JOIN usual AS u
  ON u.topic = r.topic AND u.broker_name = r.broker_name
JOIN servers AS n
  ON n.namesrv_id = r.namesrv_id
WHERE
  r.value <> u.most.value
ORDER BY
  topic NULLS FIRST,
  broker_name NULLS FIRST,
  namesrv_id NULLS FIRST

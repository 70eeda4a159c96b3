WITH turns AS (
  SELECT
    q.*,
    ROW_NUMBER() OVER (
      PARTITION BY q.namesrv_id, q.topic, q.broker_name, q.perm_before, q.perm_after
      ORDER BY q.effect_time NULLS FIRST
    ) AS turn
  FROM queue_changes AS q
  WHERE
    q.perm_before <> q.perm_after
    AND (
      $topic IS NULL OR q.topic = $topic
    )
    AND (
      $since IS NULL OR q.effect_time >= $since
    )
    AND (
      $until IS NULL OR q.effect_time < $until
    )
), seen AS (
  SELECT
    topic,
    broker_name,
    perm_before,
    perm_after,
    turn,
    MIN(effect_time) AS first_time,
    COUNT(DISTINCT namesrv_id) AS name_servers
  FROM turns
  GROUP BY
    topic,
    broker_name,
    perm_before,
    perm_after,
    turn
), known AS (
  SELECT
    topic,
    broker_name,
    COUNT(DISTINCT namesrv_id) AS name_servers
  FROM topic_queue_history
  GROUP BY
    topic,
    broker_name
)
SELECT
  t.topic,
  t.broker_name,
  t.perm_before,
  t.perm_after,
  t.namesrv_id,
  t.effect_time,
  DATE_SUB('MILLISECOND', s.first_time, t.effect_time) AS lag_ms,
  k.name_servers - s.name_servers AS missing,
  t.event_id
FROM turns AS t
JOIN seen AS s
  ON s.topic = t.topic
  AND s.broker_name = t.broker_name
  AND s.perm_before = t.perm_before
  AND s.perm_after = t.perm_after
  AND s.turn = t.turn
JOIN known AS k
  ON k.topic = t.topic AND k.broker_name = t.broker_name
ORDER BY
  s.first_time NULLS FIRST,
  t.topic NULLS FIRST,
  t.broker_name NULLS FIRST,
  t.effect_time NULLS FIRST,
  t.namesrv_id NULLS FIRST

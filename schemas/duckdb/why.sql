CREATE OR REPLACE TEMPORARY MACRO why(_topic, _t) AS TABLE
SELECT * FROM (
SELECT
  n.namesrv_id,
  CASE
    WHEN NOT n.is_covered
    THEN 'not recorded'
    WHEN NOT n.recorded
    THEN 'not known'
    WHEN n.last.change = 'vanished'
    THEN 'vanished'
    WHEN NOT n.last IS NULL
    THEN 'routed'
    WHEN NOT n.known
    THEN 'not known'
    WHEN NOT n.next IS NULL
    THEN 'not yet seen'
    ELSE 'never seen'
  END,
  n.last.effect_time,
  n.last.change,
  n.last.caused_by,
  o.operation,
  o.outcome,
  o.cluster_name,
  o.broker_name,
  o.broker_addr,
  o.channel_id,
  o.detail,
  o.source_file,
  o.source_offset,
  w.route_before,
  w.route_after,
  n.next.effect_time,
  n.next.change,
  n.next.caused_by,
  p.operation,
  n.known,
  n.coverage
FROM (
  SELECT
    s.namesrv_id,
    s.topic,
    s.is_covered,
    s.recorded,
    s.known,
    s.coverage,
    ARG_MAX_NULL(c, c.seq) FILTER(WHERE
      c.effect_time <= s.t AND s.is_covered) AS last,
    ARG_MIN_NULL(c, c.seq) FILTER(WHERE
      c.effect_time > s.t) AS next
  FROM (
    SELECT
      namesrv_id,
      is_covered,
      recorded,
      known,
      coverage,
      CAST(_topic AS TEXT) AS topic,
      CAST(_t AS TIMESTAMPTZ) AS t
    FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ))
  ) AS s
  LEFT JOIN route_changes AS c
    ON c.namesrv_id = s.namesrv_id AND c.topic = s.topic
  GROUP BY
    s.namesrv_id,
    s.topic,
    s.is_covered,
    s.recorded,
    s.known,
    s.coverage
) AS n
LEFT JOIN whole_routes AS w
  ON w.namesrv_id = n.namesrv_id AND w.topic = n.topic AND w.seq = n.last.seq
LEFT JOIN causes AS o
  ON o.namesrv_id = n.namesrv_id
  AND o.day = n.last.day
  AND o.event_id = n.last.caused_by
LEFT JOIN event_outcomes AS p
  ON p.namesrv_id = n.namesrv_id
  AND p.day = n.next.day
  AND p.event_id = n.next.caused_by
) AS made(namesrv_id, state, changed_time, change, caused_by, operation, outcome, cluster_name, broker_name, broker_addr, channel_id, detail, source_file, source_offset, route_before, route, next_time, next_change, next_caused_by, next_operation, known, coverage)

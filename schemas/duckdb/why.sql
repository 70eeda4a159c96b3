CREATE OR REPLACE TEMPORARY MACRO why(_topic, _t) AS TABLE
SELECT * FROM (
SELECT
  w.namesrv_id,
  w.state,
  w.changed_time,
  w.change,
  w.caused_by,
  MAX(u.operation) FILTER(WHERE
    w.k.is_last),
  MAX(u.outcome) FILTER(WHERE
    w.k.is_last),
  COALESCE(
    MAX(u.cluster_name) FILTER(WHERE
      w.k.is_last),
    MAX(u.sent_cluster) FILTER(WHERE
      w.k.is_last)
  ),
  COALESCE(
    MAX(u.broker_name) FILTER(WHERE
      w.k.is_last),
    MAX(u.sent_name) FILTER(WHERE
      w.k.is_last)
  ),
  COALESCE(
    MAX(u.broker_addr) FILTER(WHERE
      w.k.is_last),
    MAX(u.sent_addr) FILTER(WHERE
      w.k.is_last)
  ),
  COALESCE(
    MAX(u.channel_id) FILTER(WHERE
      w.k.is_last),
    MAX(u.sent_channel) FILTER(WHERE
      w.k.is_last)
  ),
  COALESCE(
    MAX(u.detail) FILTER(WHERE
      w.k.is_last),
    MAX(u.sent_detail) FILTER(WHERE
      w.k.is_last)
  ),
  MAX(u.source_file) FILTER(WHERE
    w.k.is_last),
  MAX(u.source_offset) FILTER(WHERE
    w.k.is_last),
  w.route_before,
  w.route,
  w.next_time,
  w.next_change,
  w.next_caused_by,
  MAX(u.operation) FILTER(WHERE
    NOT w.k.is_last),
  w.known,
  w.coverage
FROM (
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
    END AS state,
    n.last.effect_time AS changed_time,
    n.last.change AS change,
    n.last.caused_by AS caused_by,
    CASE
      WHEN COALESCE(n.last.groups_before, 0) = 0
      THEN NULL
      ELSE '{"brokerDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'brokerDatas'), LAMBDA e : e.text),
        ','
      ) || '],"filterServerTable":{' || ARRAY_TO_STRING(
        LIST_TRANSFORM(
          LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'filterServerTable'),
          LAMBDA e : e.text
        ),
        ','
      ) || '}' || ARRAY_TO_STRING(
        LIST_TRANSFORM(
          LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'orderTopicConf'),
          LAMBDA e : ',"orderTopicConf":' || e.text
        ),
        ''
      ) || ',"queueDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'queueDatas'), LAMBDA e : e.text),
        ','
      ) || ']' || CASE
        WHEN ARRAY_LENGTH(LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'topicQueueMappingByBroker')) > 0
        THEN ',"topicQueueMappingByBroker":{' || ARRAY_TO_STRING(
          LIST_TRANSFORM(
            LIST_FILTER(n.parts_before, LAMBDA e : e.part = 'topicQueueMappingByBroker'),
            LAMBDA e : e.text
          ),
          ','
        ) || '}'
        ELSE ''
      END || '}'
    END AS route_before,
    CASE
      WHEN COALESCE(n.last.groups_after, 0) = 0
      THEN NULL
      ELSE '{"brokerDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(n.parts, LAMBDA e : e.part = 'brokerDatas'), LAMBDA e : e.text),
        ','
      ) || '],"filterServerTable":{' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(n.parts, LAMBDA e : e.part = 'filterServerTable'), LAMBDA e : e.text),
        ','
      ) || '}' || ARRAY_TO_STRING(
        LIST_TRANSFORM(
          LIST_FILTER(n.parts, LAMBDA e : e.part = 'orderTopicConf'),
          LAMBDA e : ',"orderTopicConf":' || e.text
        ),
        ''
      ) || ',"queueDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(n.parts, LAMBDA e : e.part = 'queueDatas'), LAMBDA e : e.text),
        ','
      ) || ']' || CASE
        WHEN ARRAY_LENGTH(LIST_FILTER(n.parts, LAMBDA e : e.part = 'topicQueueMappingByBroker')) > 0
        THEN ',"topicQueueMappingByBroker":{' || ARRAY_TO_STRING(
          LIST_TRANSFORM(
            LIST_FILTER(n.parts, LAMBDA e : e.part = 'topicQueueMappingByBroker'),
            LAMBDA e : e.text
          ),
          ','
        ) || '}'
        ELSE ''
      END || '}'
    END AS route,
    n.next.effect_time AS next_time,
    n.next.change AS next_change,
    n.next.caused_by AS next_caused_by,
    n.known,
    n.coverage,
    UNNEST(
      [
        {'is_last': TRUE, 'day': n.last.day, 'event_id': n.last.caused_by},
        {'is_last': FALSE, 'day': n.next.day, 'event_id': n.next.caused_by},
        {'is_last': FALSE, 'day': CAST('1970-01-01' AS DATE), 'event_id': 'none'}
      ]
    ) AS k
  FROM (
    SELECT
      r.namesrv_id,
      MAX(r.is_covered) AS is_covered,
      MAX(r.recorded) AS recorded,
      MAX(r.known) AS known,
      MAX(r.coverage) AS coverage,
      ARG_MAX_NULL(r.last, r.last.seq) AS last,
      ARG_MIN_NULL(r.next, r.next.seq) AS next,
      LIST_SORT(
        COALESCE(
          ARRAY_AGG({'part': r.part, 'name': r.name, 'text': r.text}) FILTER(WHERE
            NOT r.text IS NULL
            AND NOT {'part': r.part, 'name': r.name, 'text': r.text} IS NULL),
          []
        )
      ) AS parts,
      LIST_SORT(
        COALESCE(
          ARRAY_AGG({'part': r.part, 'name': r.name, 'text': r.before}) FILTER(WHERE
            NOT r.before IS NULL
            AND NOT {'part': r.part, 'name': r.name, 'text': r.before} IS NULL),
          []
        )
      ) AS parts_before
    FROM (
      /* of each part of a route what was told of it last, and before the last change */
      SELECT
        e.namesrv_id,
        e.part,
        COALESCE(e.name, '') AS name,
        MAX(e.is_covered) AS is_covered,
        MAX(e.recorded) AS recorded,
        MAX(e.known) AS known,
        MAX(e.coverage) AS coverage,
        ARG_MAX_NULL(e.change, e.seq) FILTER(WHERE
          e.is_past) AS last,
        ARG_MIN_NULL(e.change, e.seq) FILTER(WHERE
          NOT e.is_past) AS next,
        ARG_MAX_NULL(e.text, e.seq) FILTER(WHERE
          e.is_past) AS text,
        ARG_MAX_NULL(e.text, e.seq) FILTER(WHERE
          e.seq < e.last_seq) AS before
      FROM (
        SELECT
          x.*,
          MAX(CASE WHEN x.is_past THEN x.seq ELSE NULL END) OVER (PARTITION BY x.namesrv_id) AS last_seq
        FROM (
          SELECT
            namesrv_id,
            is_covered,
            recorded,
            known,
            coverage,
            CAST(NULL AS BIGINT) AS seq,
            CAST(NULL AS BOOLEAN) AS is_past,
            nothing AS part,
            nothing AS name,
            nothing AS text,
            NULL AS change
          FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ))
          UNION ALL
          SELECT
            c.namesrv_id,
            NULL,
            NULL,
            NULL,
            NULL,
            c.seq,
            c.effect_time <= CAST(_t AS TIMESTAMPTZ),
            c.p.part,
            c.p.name,
            c.p.text,
            c.change
          FROM (
            SELECT
              namesrv_id,
              effect_time,
              seq,
              UNNEST(parts) AS p,
              {'seq': seq, 'effect_time': effect_time, 'change': change, 'caused_by': caused_by, 'day': day, 'groups_before': groups_before, 'groups_after': groups_after} AS change
            FROM route_changes
            WHERE
              topic = CAST(_topic AS TEXT)
          ) AS c
        ) AS x
      ) AS e
      GROUP BY
        e.namesrv_id,
        e.part,
        COALESCE(e.name, '')
    ) AS r
    GROUP BY
      r.namesrv_id
    HAVING
      NOT MAX(r.is_covered) IS NULL
  ) AS n
) AS w
/* One inner join with the few events that are asked for: so they are looked for in the files of their days alone. A row that */
/* is no event's keeps name servers without any. */
JOIN (
  SELECT
    namesrv_id,
    day,
    event_id,
    operation,
    outcome,
    cluster_name,
    broker_name,
    broker_addr,
    channel_id,
    detail,
    CAST(NULL AS TEXT) AS sent_cluster,
    CAST(NULL AS TEXT) AS sent_name,
    CAST(NULL AS TEXT) AS sent_addr,
    CAST(NULL AS TEXT) AS sent_channel,
    CAST(NULL AS TEXT) AS sent_detail,
    CAST(NULL AS TEXT) AS source_file,
    CAST(NULL AS BIGINT) AS source_offset
  FROM event_outcomes
  UNION ALL
  SELECT
    namesrv_id,
    day,
    event_id,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    cluster_name,
    broker_name,
    broker_addr,
    channel_id,
    detail,
    source_file,
    source_offset
  FROM cause_events
  UNION ALL
  SELECT
    namesrv_id,
    CAST('1970-01-01' AS DATE),
    'none',
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL
  FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ))
) AS u
  ON u.namesrv_id = w.namesrv_id AND u.day = w.k.day AND u.event_id = w.k.event_id
GROUP BY
  w.namesrv_id,
  w.state,
  w.changed_time,
  w.change,
  w.caused_by,
  w.route_before,
  w.route,
  w.next_time,
  w.next_change,
  w.next_caused_by,
  w.known,
  w.coverage
) AS made(namesrv_id, state, changed_time, change, caused_by, operation, outcome, cluster_name, broker_name, broker_addr, channel_id, detail, source_file, source_offset, route_before, route, next_time, next_change, next_caused_by, next_operation, known, coverage)

CREATE OR REPLACE TEMPORARY MACRO client_queues_at(_topic, _t) AS TABLE
SELECT * FROM (
SELECT
  q.side,
  q.namesrv_id,
  q.position,
  q.queue.broker_name,
  q.queue.queue_id,
  q.ordered,
  q.served_by,
  LIST_FILTER(q.groups, LAMBDA g : g.brokerName = q.served_by)[1].cluster,
  MAP_FROM_ENTRIES(
    LIST_TRANSFORM(
      MAP_ENTRIES(LIST_FILTER(q.groups, LAMBDA g : g.brokerName = q.served_by)[1].brokerAddrs),
      LAMBDA e : {'col1': CAST(e.key AS BIGINT), 'value': e.value}
    )
  ),
  q.since,
  q.caused_by,
  q.known,
  q.coverage
FROM (
  SELECT
    p.*,
    CASE
      WHEN ARRAY_LENGTH(LIST_FILTER(p.mappings, LAMBDA m : m.broker_name = p.queue.broker_name)) > 0
      THEN COALESCE(
        LIST_MAX(
          LIST_TRANSFORM(
            LIST_FILTER(
              p.mappings,
              LAMBDA m : m.broker_name = p.queue.broker_name
              AND ARRAY_CONTAINS(MAP_KEYS(m.currIdMap), CAST(p.queue.queue_id AS TEXT))
            ),
            LAMBDA m : {'epoch': m.epoch, 'bname': m.bname}
          )
        ).bname,
        '__syslo__none__'
      )
      ELSE p.queue.broker_name
    END AS served_by /* of several brokers that claim a queue, the one with the highest epoch holds it */
  FROM (
    SELECT
      s.side,
      s.namesrv_id,
      s.ordered,
      s.groups,
      s.mappings,
      s.since,
      s.caused_by,
      s.known,
      s.coverage,
      GENERATE_SUBSCRIPTS(s.queues, 1) - 1 AS position, UNNEST(s.queues) AS queue
    FROM (
      SELECT
        side.side,
        n.namesrv_id,
        n.last.ordered,
        n.last.groups,
        n.last.mappings,
        CASE WHEN side.side IS NULL THEN NULL ELSE n.last.effect_time END AS since,
        CASE WHEN side.side IS NULL THEN NULL ELSE n.last.caused_by END AS caused_by,
        n.known,
        n.coverage,
        CASE
          WHEN side.side IS NULL
          THEN [{'queue_id': CAST(NULL AS INT), 'broker_name': CAST(NULL AS TEXT)}]
          ELSE FLATTEN(
            LIST_TRANSFORM(
              side.ranges,
              LAMBDA r : LIST_TRANSFORM(
                LIST_FILTER(GENERATE_SERIES(0, LEAST(GREATEST(r.queues, 0), 65535)), LAMBDA id : id < r.queues),
                LAMBDA id : {'queue_id': id, 'broker_name': r.broker_name}
              )
            )
          )
        END AS queues
      FROM (
        SELECT
          c.namesrv_id,
          c.known,
          c.coverage,
          ARG_MAX_NULL(r, r.seq) AS last
        FROM (
          SELECT
            namesrv_id,
            is_covered,
            known,
            coverage,
            CAST(_topic AS TEXT) AS topic,
            CAST(_t AS TIMESTAMPTZ) AS t
          FROM COVERAGE_AT(CAST(_t AS TIMESTAMPTZ))
        ) AS c
        LEFT JOIN client_routes AS r
          ON r.namesrv_id = c.namesrv_id
          AND r.topic = c.topic
          AND r.effect_time <= c.t
          AND c.is_covered
        GROUP BY
          c.namesrv_id,
          c.known,
          c.coverage
      ) AS n
      CROSS JOIN UNNEST(LIST_FILTER(
        [
          {'side': 'publish', 'ranges': n.last.publish},
          {'side': 'subscribe', 'ranges': n.last.subscribe},
          {'side': CAST(NULL AS TEXT), 'ranges': n.last.subscribe}
        ],
        LAMBDA e : NOT e.side IS NULL OR NOT n.known
      )) AS _t0(side)
    ) AS s
  ) AS p
) AS q
) AS made(side, namesrv_id, position, broker_name, queue_id, ordered, served_by, cluster_name, broker_addrs, since, caused_by, known, coverage)

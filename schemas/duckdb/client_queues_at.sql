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
  q.caused_by
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
      GENERATE_SUBSCRIPTS(s.queues, 1) - 1 AS position, UNNEST(s.queues) AS queue
    FROM (
      SELECT
        side.side,
        n.namesrv_id,
        n.last.ordered,
        n.last.groups,
        n.last.mappings,
        n.last.effect_time AS since,
        n.last.caused_by,
        FLATTEN(
          LIST_TRANSFORM(
            side.ranges,
            LAMBDA r : LIST_TRANSFORM(
              LIST_FILTER(GENERATE_SERIES(0, LEAST(GREATEST(r.queues, 0), 65535)), LAMBDA id : id < r.queues),
              LAMBDA id : {'queue_id': id, 'broker_name': r.broker_name}
            )
          )
        ) AS queues
      FROM (
        SELECT
          namesrv_id,
          ARG_MAX_NULL(r, r.seq) AS last
        FROM client_routes AS r
        WHERE
          r.topic = CAST(_topic AS TEXT) AND r.effect_time <= CAST(_t AS TIMESTAMPTZ)
        GROUP BY
          namesrv_id
      ) AS n
      CROSS JOIN UNNEST([
        {'side': 'publish', 'ranges': n.last.publish},
        {'side': 'subscribe', 'ranges': n.last.subscribe}
      ]) AS _t0(side)
    ) AS s
  ) AS p
) AS q
) AS made(side, namesrv_id, position, broker_name, queue_id, ordered, served_by, cluster_name, broker_addrs, since, caused_by)

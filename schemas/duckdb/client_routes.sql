CREATE OR REPLACE TEMPORARY VIEW client_routes AS
SELECT * FROM (
WITH answers AS (
  SELECT
    namesrv_id,
    topic,
    seq,
    effect_time,
    day,
    caused_by,
    FROM_JSON(
      CASE
        WHEN JSON_VALID(route_after)
        THEN route_after
        WHEN NOT route_after IS NULL
        THEN '{}'
      END,
      '"STRUCT(orderTopicConf TEXT, queueDatas STRUCT(brokerName TEXT, perm INT, readQueueNums INT, writeQueueNums INT)[], brokerDatas STRUCT(brokerName TEXT, cluster TEXT, brokerAddrs MAP(TEXT, TEXT))[], topicQueueMappingByBroker MAP(TEXT, STRUCT(scope TEXT, bname TEXT, epoch BIGINT, totalQueues INT, currIdMap MAP(TEXT, INT))))"'
    ) AS route /* under the name server's settings: no order conf without orderMessageEnable */
  FROM whole_routes
), parts AS (
  SELECT
    *,
    LIST_TRANSFORM(
      LIST_FILTER(
        STR_SPLIT_REGEX(REGEXP_REPLACE(route.orderTopicConf, ';+\z', '', 'g'), ';'),
        LAMBDA e : NOT REGEXP_MATCHES(route.orderTopicConf, '^;*\z')
      ),
      LAMBDA e : {'broker_name': SPLIT_PART(e, ':', 1), 'queues': CASE
        WHEN REGEXP_MATCHES(SPLIT_PART(e, ':', 2), '^[+-]?[0-9]+\z')
        THEN TRY_CAST(SPLIT_PART(e, ':', 2) AS INT)
        ELSE NULL
      END}
    ) AS order_conf,
    COALESCE(
      LIST_TRANSFORM(
        MAP_VALUES(route.topicQueueMappingByBroker),
        LAMBDA m : {'broker_name': '__syslo__' || REGEXP_REPLACE(COALESCE(m.scope, '__global__'), '^__global__\z', 'global__', 'g'), 'queues': m.totalQueues, 'epoch': m.epoch, 'bname': m.bname, 'currIdMap': m.currIdMap}
      ),
      []
    ) AS mappings,
    LIST_TRANSFORM(
      LIST_SORT(
        LIST_TRANSFORM(
          route.queueDatas,
          LAMBDA q : {'place': REGEXP_REPLACE(q.brokerName, '([\x{E000}-\x{FFFF}])', DECODE(UNHEX('F48FBFBF')) || '\1', 'g'), 'queue_data': q}
        )
      ),
      LAMBDA s : s.queue_data
    ) AS queue_datas
  FROM answers
), ranges AS (
  SELECT
    *,
    LIST_TRANSFORM(
      LIST_SORT(LIST_DISTINCT(LIST_TRANSFORM(mappings, LAMBDA m : m.broker_name))),
      LAMBDA name : {'broker_name': name, 'queues': LIST_MAX(
        LIST_TRANSFORM(LIST_FILTER(mappings, LAMBDA m : m.broker_name = name), LAMBDA m : m.queues)
      )}
    ) AS static
  FROM parts
)
SELECT
  namesrv_id,
  topic,
  seq,
  effect_time,
  day,
  caused_by,
  COALESCE(route.orderTopicConf <> '', FALSE),
  CASE
    WHEN ARRAY_LENGTH(LIST_FILTER(queue_datas, LAMBDA q : q.brokerName IS NULL)) > 0
    THEN NULL
    WHEN route.orderTopicConf <> ''
    THEN CASE
      WHEN ARRAY_LENGTH(LIST_FILTER(order_conf, LAMBDA e : e.queues IS NULL)) > 0
      THEN NULL
      ELSE order_conf
    END
    WHEN route.orderTopicConf IS NULL AND ARRAY_LENGTH(static) > 0
    THEN static
    ELSE LIST_TRANSFORM(
      LIST_FILTER(
        queue_datas,
        LAMBDA q : q.perm & 2 <> 0
        AND ARRAY_LENGTH(
          LIST_FILTER(
            route.brokerDatas,
            LAMBDA b : b.brokerName = q.brokerName AND ARRAY_CONTAINS(MAP_KEYS(b.brokerAddrs), '0')
          )
        ) > 0
      ),
      LAMBDA q : {'broker_name': q.brokerName, 'queues': q.writeQueueNums}
    )
  END,
  CASE
    WHEN ARRAY_LENGTH(LIST_FILTER(queue_datas, LAMBDA q : q.brokerName IS NULL)) > 0
    THEN NULL
    WHEN ARRAY_LENGTH(static) > 0
    THEN static
    ELSE LIST_TRANSFORM(
      LIST_FILTER(queue_datas, LAMBDA q : q.perm & 4 <> 0),
      LAMBDA q : {'broker_name': q.brokerName, 'queues': q.readQueueNums}
    )
  END,
  route.brokerDatas,
  mappings
FROM ranges
) AS made(namesrv_id, topic, seq, effect_time, day, caused_by, ordered, publish, subscribe, groups, mappings)

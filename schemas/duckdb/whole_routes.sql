CREATE OR REPLACE TEMPORARY VIEW whole_routes AS
SELECT * FROM (
WITH told AS (
  SELECT
    namesrv_id,
    topic,
    seq,
    p.part,
    p.name,
    {'text': p.text} AS said
  FROM (
    SELECT
      namesrv_id,
      topic,
      seq,
      UNNEST(parts) AS p
    FROM route_changes
  )
), states AS (
  /* of each change every part that the topic ever had, as it was told last */
  SELECT
    c.namesrv_id,
    c.topic,
    c.seq,
    k.part,
    COALESCE(k.name, '') AS name,
    LAST_VALUE(t.said IGNORE NULLS) OVER (PARTITION BY c.namesrv_id, c.topic, k.part, k.name ORDER BY c.seq NULLS FIRST).text AS text
  FROM route_changes AS c
  JOIN (
    SELECT DISTINCT
      namesrv_id,
      topic,
      part,
      name
    FROM told
  ) AS k
    ON k.namesrv_id = c.namesrv_id AND k.topic = c.topic
  LEFT JOIN told AS t
    ON t.namesrv_id = c.namesrv_id
    AND t.topic = c.topic
    AND t.seq = c.seq
    AND t.part = k.part
    AND t.name IS NOT DISTINCT FROM k.name
), routes AS (
  SELECT
    c.namesrv_id,
    c.topic,
    c.seq,
    c.effect_time,
    c.caused_by,
    c.change,
    c.day,
    c.groups_after,
    r.parts
  FROM route_changes AS c
  JOIN (
    SELECT
      namesrv_id,
      topic,
      seq,
      LIST_SORT(
        COALESCE(
          ARRAY_AGG({'part': part, 'name': name, 'text': text}) FILTER(WHERE
            NOT text IS NULL AND NOT {'part': part, 'name': name, 'text': text} IS NULL),
          []
        )
      ) AS parts
    FROM states
    GROUP BY
      namesrv_id,
      topic,
      seq
  ) AS r
    ON r.namesrv_id = c.namesrv_id AND r.topic = c.topic AND r.seq = c.seq
), texts AS (
  SELECT
    namesrv_id,
    topic,
    seq,
    effect_time,
    caused_by,
    change,
    day,
    CASE
      WHEN groups_after = 0
      THEN NULL
      ELSE '{"brokerDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(parts, LAMBDA e : e.part = 'brokerDatas'), LAMBDA e : e.text),
        ','
      ) || '],"filterServerTable":{' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(parts, LAMBDA e : e.part = 'filterServerTable'), LAMBDA e : e.text),
        ','
      ) || '}' || ARRAY_TO_STRING(
        LIST_TRANSFORM(
          LIST_FILTER(parts, LAMBDA e : e.part = 'orderTopicConf'),
          LAMBDA e : ',"orderTopicConf":' || e.text
        ),
        ''
      ) || ',"queueDatas":[' || ARRAY_TO_STRING(
        LIST_TRANSFORM(LIST_FILTER(parts, LAMBDA e : e.part = 'queueDatas'), LAMBDA e : e.text),
        ','
      ) || ']' || CASE
        WHEN ARRAY_LENGTH(LIST_FILTER(parts, LAMBDA e : e.part = 'topicQueueMappingByBroker')) > 0
        THEN ',"topicQueueMappingByBroker":{' || ARRAY_TO_STRING(
          LIST_TRANSFORM(
            LIST_FILTER(parts, LAMBDA e : e.part = 'topicQueueMappingByBroker'),
            LAMBDA e : e.text
          ),
          ','
        ) || '}'
        ELSE ''
      END || '}'
    END AS route
  FROM routes
)
SELECT
  namesrv_id,
  topic,
  seq,
  effect_time,
  caused_by,
  change,
  LAG(route) OVER (PARTITION BY namesrv_id, topic ORDER BY seq NULLS FIRST),
  route,
  day
FROM texts
) AS made(namesrv_id, topic, seq, effect_time, caused_by, change, route_before, route_after, day)

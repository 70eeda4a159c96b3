CREATE OR REPLACE TEMPORARY VIEW whole_routes AS
SELECT * FROM (
WITH parts AS (
  SELECT
    namesrv_id,
    topic,
    seq,
    p.part,
    p.name,
    p.text,
    LEAD(seq) OVER (PARTITION BY namesrv_id, topic, p.part, p.name ORDER BY seq NULLS FIRST) AS until
  FROM (
    SELECT
      namesrv_id,
      topic,
      seq,
      UNNEST(parts) AS p
    FROM route_changes
  )
), routes AS (
  SELECT
    c.namesrv_id,
    c.topic,
    c.seq,
    c.effect_time,
    c.caused_by,
    c.change,
    c.day,
    '{"brokerDatas":[' || ARRAY_TO_STRING(
      LIST_TRANSFORM(
        LIST_SORT(
          COALESCE(
            ARRAY_AGG({'name': COALESCE(p.name, ''), 'text': p.text}) FILTER(WHERE
              p.part = 'brokerDatas'
              AND NOT {'name': COALESCE(p.name, ''), 'text': p.text} IS NULL),
            []
          )
        ),
        LAMBDA e : e.text
      ),
      ','
    ) || '],"filterServerTable":{' || ARRAY_TO_STRING(
      LIST_TRANSFORM(
        LIST_SORT(
          COALESCE(
            ARRAY_AGG({'name': COALESCE(p.name, ''), 'text': p.text}) FILTER(WHERE
              p.part = 'filterServerTable'
              AND NOT {'name': COALESCE(p.name, ''), 'text': p.text} IS NULL),
            []
          )
        ),
        LAMBDA e : e.text
      ),
      ','
    ) || '}' || COALESCE(
      MAX(
        CASE
          WHEN p.part = 'orderTopicConf'
          THEN ',"orderTopicConf":' || p.text
          ELSE NULL
        END
      ),
      ''
    ) || ',"queueDatas":[' || ARRAY_TO_STRING(
      LIST_TRANSFORM(
        LIST_SORT(
          COALESCE(
            ARRAY_AGG({'name': COALESCE(p.name, ''), 'text': p.text}) FILTER(WHERE
              p.part = 'queueDatas'
              AND NOT {'name': COALESCE(p.name, ''), 'text': p.text} IS NULL),
            []
          )
        ),
        LAMBDA e : e.text
      ),
      ','
    ) || ']' || CASE
      WHEN MAX(p.part) = 'topicQueueMappingByBroker'
      THEN ',"topicQueueMappingByBroker":{' || ARRAY_TO_STRING(
        LIST_TRANSFORM(
          LIST_SORT(
            COALESCE(
              ARRAY_AGG({'name': COALESCE(p.name, ''), 'text': p.text}) FILTER(WHERE
                p.part = 'topicQueueMappingByBroker'
                AND NOT {'name': COALESCE(p.name, ''), 'text': p.text} IS NULL),
              []
            )
          ),
          LAMBDA e : e.text
        ),
        ','
      ) || '}'
      ELSE ''
    END || '}' AS route
  FROM route_changes AS c
  JOIN parts AS p
    ON p.namesrv_id = c.namesrv_id
    AND p.topic = c.topic
    AND p.seq <= c.seq
    AND (
      p.until IS NULL OR p.until > c.seq
    )
  WHERE
    NOT p.text IS NULL
  GROUP BY
    c.namesrv_id,
    c.topic,
    c.seq,
    c.effect_time,
    c.caused_by,
    c.change,
    c.day
  UNION ALL
  SELECT
    namesrv_id,
    topic,
    seq,
    effect_time,
    caused_by,
    change,
    day,
    CAST(NULL AS TEXT)
  FROM route_changes
  WHERE
    groups_after = 0
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
FROM routes
) AS made(namesrv_id, topic, seq, effect_time, caused_by, change, route_before, route_after, day)

CREATE OR REPLACE TEMPORARY MACRO route_text_rows_at(_t) AS TABLE
SELECT * FROM (
SELECT
  r.namesrv_id,
  r.topic,
  r.broker_name,
  r.text.part,
  r.text.text,
  r.known,
  r.coverage
FROM (
  SELECT
    namesrv_id,
    topic,
    broker_name,
    known,
    coverage,
    UNNEST(
      [
        {'part': 'queues', 'text': perm || ' read ' || read_queue_nums || ' write ' || write_queue_nums || CASE WHEN topic_sys_flag = 0 THEN '' ELSE ' flag ' || topic_sys_flag END},
        {'part': 'addresses', 'text': COALESCE(
          ARRAY_TO_STRING(
            LIST_TRANSFORM(MAP_ENTRIES(broker_addrs), LAMBDA e : e.key || '=' || e.value),
            ', '
          ),
          'no group'
        )},
        {'part': 'order_topic_conf', 'text': COALESCE(order_topic_conf, '')}
      ]
    ) AS text
  FROM ROUTES_ROWS_AT(CAST(_t AS TIMESTAMPTZ))
) AS r
) AS made(namesrv_id, topic, broker_name, part, text, known, coverage)

CREATE OR REPLACE TEMPORARY VIEW findings AS
SELECT * FROM (
SELECT
  namesrv_id,
  code,
  ARG_MAX_NULL(severity, day),
  subject,
  from_time,
  ARG_MAX_NULL(to_time, day),
  ARG_MAX_NULL(detail, day),
  ARG_MAX_NULL(evidence, day),
  ARG_MAX_NULL(brokers, day),
  ARG_MAX_NULL(broker_names, day),
  ARG_MAX_NULL(topics, day),
  ARG_MAX_NULL(topic_names, day),
  MIN(day)
FROM findings_slices
GROUP BY
  namesrv_id,
  code,
  subject,
  from_time
) AS made(namesrv_id, code, severity, subject, from_time, to_time, detail, evidence, brokers, broker_names, topics, topic_names, day)

SELECT
  COALESCE(n.namesrv_id, b.namesrv_id) AS namesrv_id,
  COALESCE(n.broker_name, b.broker_name) AS broker_name,
  n.read_queue_nums,
  n.write_queue_nums,
  n.share AS write_share,
  b.read_queue_nums AS read_before,
  b.write_queue_nums AS write_before,
  b.share AS share_before,
  n.opened_by,
  COALESCE(n.known, TRUE) AND COALESCE(b.known, TRUE) AS known
FROM (
  SELECT
    *,
    ROUND(
      CAST(100 AS DOUBLE) * write_queue_nums / NULLIF(SUM(write_queue_nums) OVER (PARTITION BY namesrv_id), 0),
      1
    ) AS share
  FROM TOPIC_QUEUE_TABLE_AT($t)
  WHERE
    topic = $topic OR opened_by IS NULL
) AS n
FULL JOIN (
  SELECT
    *,
    ROUND(
      CAST(100 AS DOUBLE) * write_queue_nums / NULLIF(SUM(write_queue_nums) OVER (PARTITION BY namesrv_id), 0),
      1
    ) AS share
  FROM TOPIC_QUEUE_TABLE_AT($before)
  WHERE
    topic = $topic OR opened_by IS NULL
) AS b
  ON b.namesrv_id = n.namesrv_id AND b.broker_name = n.broker_name
ORDER BY
  1 NULLS FIRST,
  2 NULLS FIRST

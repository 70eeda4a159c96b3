CREATE OR REPLACE TEMPORARY VIEW address_changes AS
SELECT * FROM (
SELECT
  m.namesrv_id,
  m.cluster_name,
  m.broker_name,
  m.broker_id,
  m.addr_before,
  m.broker_addr,
  m.left_time,
  m.left_by,
  m.valid_from,
  m.opened_by,
  DATE_SUB('MILLISECOND', m.left_time, m.valid_from)
FROM (
  SELECT
    h.*,
    LAG(h.broker_addr) OVER place AS addr_before,
    LAG(h.valid_to) OVER place AS left_time,
    LAG(h.closed_by) OVER place AS left_by
  FROM broker_addr_history AS h
  WHERE
    NOT h.broker_id IS NULL
  WINDOW place AS (
    PARTITION BY h.namesrv_id, h.broker_name, h.broker_id
    ORDER BY h.opened_at NULLS FIRST
  )
) AS m
WHERE
  m.addr_before <> m.broker_addr
) AS made(namesrv_id, cluster_name, broker_name, broker_id, addr_before, addr_after, left_time, left_by, effect_time, event_id, gap_ms)

-- Staged events whose position is taken: if the source stated the position, the event is refused; if we made it, it moves behind its
-- microsecond.
INSERT INTO moved
WITH placed AS (
  SELECT namesrv_id, seq, 0 AS rank, 0 AS _n FROM neighbours
  UNION ALL
  SELECT namesrv_id, seq, CASE WHEN _seq_is_given THEN 1 ELSE 2 END, _n
  FROM events ANTI JOIN neighbours USING (namesrv_id, event_id)
), clashing AS (
  SELECT *, seq // 1000 AS micros, max(seq) OVER (PARTITION BY namesrv_id, seq // 1000) AS last
  FROM placed
  QUALIFY rank > 0 AND row_number() OVER (PARTITION BY namesrv_id, seq ORDER BY rank, _n) > 1
), made AS (
  SELECT _n, micros, last::HUGEINT + row_number() OVER (PARTITION BY namesrv_id, micros ORDER BY seq, _n) AS seq
  FROM clashing WHERE rank = 2
)
SELECT _n, seq, TRUE FROM clashing WHERE rank = 1
UNION ALL
SELECT _n, least(seq, 9223372036854775807), seq // 1000 <> micros OR seq > 9223372036854775807 FROM made

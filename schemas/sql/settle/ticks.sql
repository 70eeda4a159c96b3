-- What answers show of scans: one ran after `from_seq` and by `until_seq`, inclusive. For a broker whose lease ended less than a
-- period ago, an answer shows that it is still there, or no longer. The latter counts only for a question to which an earlier answer,
-- since the last heartbeat (`beat_seq`), showed the broker. Each text of an answer is searched once for a broker.
WITH asked AS (
    SELECT seq, request_seq, event_id, body, {'code': code, 'subject': subject, 'scope': scope} AS question FROM answers
    WHERE code IN (105, 106) AND response_code IN (0, 17)
        AND seq BETWEEN (SELECT min(beat_seq) FROM spans) AND (SELECT max(until_seq) FROM spans)
), looked_at AS (
    SELECT DISTINCT broker_addr, body FROM spans JOIN asked ON request_seq > beat_seq AND asked.seq <= until_seq
), shown AS (
    SELECT broker_addr, number FROM looked_at JOIN bodies ON number = body WHERE contains(text, '"' || broker_addr || '"')
), found AS (
    SELECT spans.*, asked.seq, request_seq, event_id, question, number IS NOT NULL AS is_shown
    FROM spans JOIN asked ON request_seq > from_seq AND asked.seq <= until_seq
    LEFT JOIN shown ON shown.broker_addr = spans.broker_addr AND number = body
), before AS (
    SELECT DISTINCT broker_addr, from_seq, question
    FROM (SELECT DISTINCT broker_addr, beat_seq, from_seq, question FROM found WHERE NOT is_shown) JOIN asked USING (question)
    WHERE request_seq > beat_seq AND asked.seq <= from_seq AND (broker_addr, body) IN (FROM shown)
)
SELECT period_ns, tick, is_guess, if(is_shown, request_seq, found.from_seq - 1) AS from_seq,
    if(is_shown, found.from_seq - 1 + period_ns, found.seq) AS until_seq, found.seq, event_id
FROM found
WHERE if(is_shown, request_seq, found.seq) < found.from_seq - 1 + period_ns
    AND (is_shown OR (broker_addr, found.from_seq, question) IN (FROM before))
ORDER BY found.seq, event_id, broker_addr

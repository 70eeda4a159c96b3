-- Name servers whose answers show brokers come and go without a registration, although only a registration brings a broker back.
WITH changes AS (
    SELECT *, lag(brokers) OVER own AS last, lag(seq) OVER own AS last_seq
    FROM lists WINDOW own AS (PARTITION BY namesrv_id ORDER BY seq, event_id) QUALIFY brokers <> last
), again AS (
    SELECT *, lag(last) OVER own AS before_last, lag(last_seq) OVER own AS begin_seq
    FROM changes WINDOW own AS (PARTITION BY namesrv_id ORDER BY seq, event_id)
), back AS (
    SELECT a.namesrv_id, a.event_id FROM again AS a WHERE brokers = before_last AND seq - begin_seq < 10000000000
    EXCEPT
    SELECT a.namesrv_id, a.event_id FROM again AS a JOIN registered AS r ON r.seq > a.begin_seq AND r.seq <= a.seq
    WHERE list_contains(a.brokers, r.broker_addr) <> list_contains(a.last, r.broker_addr)
)
SELECT namesrv_id, count(b.event_id) AS answers, count(*) AS changes, min(seq) AS first_seq, max(seq) AS last_seq,
    (list(event_id ORDER BY seq) FILTER (b.event_id IS NOT NULL))[1:$shown] AS evidence
FROM changes LEFT JOIN back AS b USING (namesrv_id, event_id)
GROUP BY namesrv_id HAVING answers >= greatest($flips, $share * changes) ORDER BY namesrv_id

-- How often answers of one name server show brokers that register only at another one: number of answers, times shown, times lacking.
WITH since AS (
    -- Brokers that registered before the recording began are gone from its answers once their leases have ended.
    SELECT namesrv_id, min(first_seq) + $settled_ns AS known_seq
    FROM (SELECT namesrv_id, first_seq FROM beats UNION ALL SELECT namesrv_id, seq FROM lists UNION ALL FROM eve)
    GROUP BY namesrv_id
), rivals AS (
    -- Two addresses with one broker name and id replace each other.
    SELECT broker_name, broker_id FROM registered GROUP BY ALL HAVING count(DISTINCT broker_addr) > 1
), came AS (
    -- A broker that an earlier answer lacks has registered since.
    SELECT t.namesrv_id, r.broker_addr, min(t.seq) AS lacking_seq
    FROM lists AS t JOIN since AS s ON s.namesrv_id = t.namesrv_id AND t.seq < s.known_seq
    JOIN (SELECT DISTINCT broker_addr FROM registered) AS r ON NOT list_contains(t.brokers, r.broker_addr) GROUP BY ALL
), met AS (
    SELECT t.namesrv_id AS one, r.namesrv_id AS other, t.event_id, t.seq, list_contains(t.brokers, r.broker_addr) AS is_shown
    FROM lists AS t JOIN since AS s USING (namesrv_id)
    JOIN registered AS r ON r.namesrv_id <> t.namesrv_id AND t.seq > r.seq + $fresh_ns // 25
        AND t.seq <= r.seq + least($fresh_ns, coalesce(r.lease_ms, $lease_ms) * 500000)
    ANTI JOIN beats AS own ON own.namesrv_id = t.namesrv_id AND own.broker_addr = r.broker_addr
    ANTI JOIN rivals AS v ON v.broker_name = r.broker_name AND v.broker_id = r.broker_id
    LEFT JOIN came AS c ON c.namesrv_id = t.namesrv_id AND c.broker_addr = r.broker_addr
    WHERE t.seq > least(s.known_seq, c.lacking_seq) OR NOT is_shown
)
SELECT one, other, count(DISTINCT event_id) FILTER (is_shown) AS answers, count_if(is_shown)::BIGINT AS shown,
    count_if(NOT is_shown)::BIGINT AS lacking, min(seq) AS first_seq, max(seq) AS last_seq,
    (list(DISTINCT event_id ORDER BY event_id) FILTER (is_shown))[1:$shown] AS evidence
FROM met GROUP BY one, other ORDER BY one, other

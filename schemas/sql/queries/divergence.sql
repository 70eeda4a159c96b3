-- At t, which topics and brokers do not all name servers know, which lack them, and since when?
-- group: name servers that disagree
-- parameter t TIMESTAMP: instant
-- column topic: topic
-- column broker_name: broker name
-- column namesrv_id: name server that lacks it
-- column known_to: name servers that know it
-- column known_since: since when the first of them has known it
-- column known_by: event that taught it
-- column lacking_since: since when this one has lacked it; NULL = it never knew it
-- column lacking_by: event that took it
-- column known: FALSE = the name server is not known in full at t: it may have it
WITH routed AS (
    SELECT namesrv_id, topic, broker_name, valid_from, opened_by FROM topic_queue_table_at(:t) WHERE opened_by IS NOT NULL
), known AS (
    SELECT
        topic, broker_name, array_join(array_sort(collect_set(namesrv_id)), ', ') AS known_to,
        min(valid_from) AS known_since, min_by(opened_by, valid_from) AS known_by
    FROM routed
    GROUP BY topic, broker_name
), lost AS (
    SELECT
        namesrv_id, topic, broker_name, max(valid_to) AS lacking_since, max_by(closed_by, valid_to) AS lacking_by
    FROM topic_queue_history
    WHERE valid_to <= :t
    GROUP BY namesrv_id, topic, broker_name
)
SELECT
    k.topic, k.broker_name, n.namesrv_id, k.known_to, k.known_since, k.known_by, l.lacking_since, l.lacking_by,
    n.known
FROM known AS k
CROSS JOIN (SELECT namesrv_id, known FROM coverage_at(:t) WHERE is_covered) AS n
LEFT ANTI JOIN routed AS r
    ON r.namesrv_id = n.namesrv_id AND r.topic = k.topic AND r.broker_name = k.broker_name
LEFT JOIN lost AS l ON l.namesrv_id = n.namesrv_id AND l.topic = k.topic AND l.broker_name = k.broker_name
ORDER BY k.topic, k.broker_name, n.namesrv_id

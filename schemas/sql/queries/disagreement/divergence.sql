-- Which topics of which brokers are missing on some name servers at t, or have other queues or permissions, and since when?
-- parameter t TIMESTAMP: instant
-- columns: topic, broker_name
-- column namesrv_id: name server that lacks it, or differs from the majority (in a tie, from those that had it first)
-- column differs: missing, or the value here against the value of the others
-- column known_to: name servers that have it, or have it like the majority
-- column known_since: since when the first of them has had it
-- column known_by: event that added it there
-- column lacking_since: since when this name server has lacked it, or had another value; NULL = it never had it
-- column lacking_by: event that removed or changed it here
-- column known: FALSE = the name server is not known in full at t, so it may have it
WITH routed AS (
    SELECT
        namesrv_id, topic, broker_name, valid_from, opened_by,
        concat('perm ', perm, ', read ', read_queue_nums, ', write ', write_queue_nums, ', flag ', topic_sys_flag) AS value
    FROM topic_queue_table_at(:t)
    WHERE opened_by IS NOT NULL
), known AS (
    SELECT
        r.topic, r.broker_name, array_join(array_sort(collect_set(r.namesrv_id)), ', ') AS known_to,
        min(c.valid_from) AS known_since, min_by(c.opened_by, c.valid_from) AS known_by
    FROM routed AS r
    JOIN {came(entered_at)} AS c ON c.namesrv_id = r.namesrv_id AND c.topic = r.topic AND c.broker_name = r.broker_name
    GROUP BY r.topic, r.broker_name
), lost AS (
    SELECT
        namesrv_id, topic, broker_name, max(valid_to) AS lacking_since, max_by(closed_by, valid_to) AS lacking_by
    FROM topic_queue_history
    WHERE valid_to <= :t
    GROUP BY namesrv_id, topic, broker_name
), held AS (
    SELECT
        topic, broker_name, value, array_join(array_sort(collect_set(namesrv_id)), ', ') AS known_to, count(*) AS servers,
        min(valid_from) AS known_since, min_by(opened_by, valid_from) AS known_by
    FROM routed
    GROUP BY topic, broker_name, value
), usual AS (
    SELECT
        topic, broker_name,
        max_by(struct(value, known_to, known_since, known_by), struct(servers, -unix_micros(known_since), value)) AS most
    FROM held
    GROUP BY topic, broker_name
    HAVING count(*) > 1
), servers AS (
    SELECT namesrv_id, known FROM coverage_at(:t) WHERE is_covered
)
SELECT
    k.topic, k.broker_name, n.namesrv_id, 'missing' AS differs, k.known_to, k.known_since, k.known_by, l.lacking_since,
    l.lacking_by, n.known
FROM known AS k
CROSS JOIN servers AS n
LEFT ANTI JOIN routed AS r
    ON r.namesrv_id = n.namesrv_id AND r.topic = k.topic AND r.broker_name = k.broker_name
LEFT JOIN lost AS l ON l.namesrv_id = n.namesrv_id AND l.topic = k.topic AND l.broker_name = k.broker_name
UNION ALL
SELECT
    r.topic, r.broker_name, r.namesrv_id, concat(r.value, ' instead of ', u.most.value), u.most.known_to, u.most.known_since,
    u.most.known_by, r.valid_from, r.opened_by, n.known
FROM routed AS r
JOIN usual AS u ON u.topic = r.topic AND u.broker_name = r.broker_name
JOIN servers AS n ON n.namesrv_id = r.namesrv_id
WHERE r.value <> u.most.value
ORDER BY topic, broker_name, namesrv_id

-- What answers, `judged` one by one, say of each two name servers, of which `pairs` are, being one.
WITH once AS (
    SELECT one, other, namesrv_id, event_id, seq, is_early, bool_or(is_for) AS is_for, bool_or(is_against) AS is_against
    FROM judged GROUP BY ALL
), releases AS (
    SELECT b.namesrv_id, list(DISTINCT response_version) FILTER (response_version IS NOT NULL) AS versions
    FROM (SELECT DISTINCT namesrv_id FROM beats) AS b LEFT JOIN answers USING (namesrv_id) GROUP BY ALL
), contradicted AS (
    SELECT DISTINCT one, other FROM once WHERE NOT is_early GROUP BY one, other, namesrv_id
    HAVING count_if(is_against) > $against_few + $against_share * count_if(is_for)
), votes AS (
    SELECT one, other, count_if(is_for AND NOT is_early)::BIGINT AS answers_for,
        count_if(is_for AND is_early)::BIGINT AS answers_early, count_if(is_against AND NOT is_early)::BIGINT AS answers_against,
        list(event_id ORDER BY is_early, is_against, seq)[1:$shown] AS evidence, min(seq) AS first_seq, max(seq) AS last_seq
    FROM once GROUP BY one, other
)
SELECT one, other, answers_for, answers_early, answers_against, fewer AS brokers, at_both,
    at_both > $both_share * fewer OR (one, other) IN (FROM contradicted)
        OR coalesce(NOT list_has_any(a.versions, b.versions), false) AS is_denied,
    evidence, first_seq, last_seq
FROM votes JOIN pairs USING (one, other)
    JOIN releases AS a ON a.namesrv_id = one JOIN releases AS b ON b.namesrv_id = other
ORDER BY one, other

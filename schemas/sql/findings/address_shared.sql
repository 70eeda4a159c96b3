-- An address whose answers go back and forth between two states: several name servers behind one balancer.
-- meaning: an address at which several name servers seem to answer
-- severity: warning
-- remedy: Record behind the balancer, where each name server has its own address
SELECT
    'warning' AS severity, namesrv_id AS subject, greatest(first_time, $start) AS from_time, last_time AS to_time,
    answers_against || ' of ' || (answers_for + answers_against) || ' changes of what it holds only take back the one before: '
        || 'several name servers seem to answer at this address; they cannot be told apart here, record them behind it' AS detail,
    evidence
FROM addresses
WHERE NOT is_one AND namesrv_addr = namesrv_id AND CAST(last_time AS DATE) = CAST($start AS DATE)

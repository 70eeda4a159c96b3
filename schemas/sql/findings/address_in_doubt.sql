-- Two name servers of which answers say that they may be one: too little speaks for it, or too much against it.
-- meaning: two name servers that may be one with two addresses
-- severity: warning
-- remedy: Say in conf/ (addresses) that they are one, or that each has no other address
SELECT
    'warning' AS severity, namesrv_addr || ' ' || namesrv_id AS subject, greatest(first_time, $start) AS from_time,
    last_time AS to_time,
    answers_for || ' answers at one show brokers that beat at the other alone, ' || answers_early || ' more may show what was '
        || 'there before, ' || answers_against || ' lack such brokers, and ' || brokers_at_both || ' brokers beat at both: kept '
        || 'apart; if they are one, say so in conf/ (addresses)' AS detail,
    evidence
FROM addresses
WHERE NOT is_one AND namesrv_addr = (SELECT namesrv_id FROM about) AND namesrv_id <> namesrv_addr
    AND CAST(last_time AS DATE) = CAST($start AS DATE)

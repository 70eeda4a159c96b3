-- Registered addresses that other machines can hardly reach: loopback, and 172.16/12, Docker's default range.
SELECT
    namesrv_id, 'PRIVATE_ADDR' AS code, 'info' AS severity, broker_addr AS subject,
    min(valid_from) AS from_time, IF(count(valid_to) = count(*), max(valid_to), NULL) AS to_time,
    concat('registered by ', array_join(sort_array(collect_set(broker_name)), ', ')) AS detail,
    array(min_by(opened_by, opened_at)) AS evidence, day
FROM {broker_addr_history}
WHERE broker_addr RLIKE '^(127[.]|localhost:|172[.](1[6-9]|2[0-9]|3[01])[.])'
GROUP BY namesrv_id, day, broker_addr

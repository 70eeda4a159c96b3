-- Members of groups that allow acting masters, with the start of their membership.
SELECT min(first_seq) AS seq, broker_name, broker_addr, broker_id FROM hours
WHERE kind = 'registrations' AND enable_acting_master AND refusal IS NULL AND broker_id IS NOT NULL
GROUP BY ALL
UNION ALL
SELECT 0, broker_name, broker_addr, broker_id FROM kept
WHERE enable_acting_master AND broker_id IS NOT NULL

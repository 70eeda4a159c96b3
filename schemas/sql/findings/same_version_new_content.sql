-- Brokers that reported different topics under a data version that they had already used.
-- meaning: a broker changed its topics but kept its data version, so that name servers need not take them over
-- severity: warning
-- remedy: Make the broker raise its version: change a topic on it, or restart it
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, seen_time AS from_time, seen_time AS to_time,
    len(changed) || if(len(changed) = 1, ' topic differs', ' topics differ') || ' from what it had told with version ' || version
        || ', ' || len(skipped) || ' of its topics were not taken over: ' || array_to_string(changed[1:10], ', ') AS detail,
    [event_id] AS evidence, [broker_name] AS broker_names, changed AS topic_names
FROM same_version
WHERE len(changed) > 0

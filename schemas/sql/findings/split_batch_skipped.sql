-- Registrations in several batches with one data version, of which the name server skipped one because it had that version.
-- meaning: a batch of a split registration was skipped, because the name server already had its data version
-- severity: warning
-- remedy: Let the broker register in one piece, or upgrade it: the topics of the batch are not routed
SELECT
    'warning' AS severity, concat_ws(' ', broker_name, broker_addr) AS subject, seen_time AS from_time, seen_time AS to_time,
    len(skipped) || if(len(skipped) = 1, ' topic', ' topics') || ' registered with version ' || version
        || ' after others with it were not taken over: ' || array_to_string(skipped[1:10], ', ') AS detail,
    [event_id] AS evidence, [broker_name] AS broker_names, skipped AS topic_names
FROM same_version
WHERE len(changed) = 0 AND is_new_version

-- Which topics does the name server still route to a broker that no longer reports them?
-- parameters: broker, since, until
-- columns: namesrv_id, broker_name, topic
-- column from_time: first registration without it
-- columns: to_time
-- column event_id: event_id of that registration
-- columns: closed_by
SELECT namesrv_id, broker_name, topic, valid_from AS from_time, valid_to AS to_time, opened_by AS event_id, closed_by
FROM orphaned_topics
WHERE reason = 'residual' AND (:broker IS NULL OR broker_name = :broker) AND {overlaps(valid_from, valid_to)}
ORDER BY from_time, namesrv_id, broker_name, topic

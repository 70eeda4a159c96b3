-- Which topics does a broker not report any more that the name server still routes to it?
-- group: topics
-- parameter broker STRING = NULL: only this broker name
-- parameter since TIMESTAMP = NULL: start of the time range
-- parameter until TIMESTAMP = NULL: end of the time range, exclusive
-- column namesrv_id: name server
-- column broker_name: broker name
-- column topic: topic
-- column from_time: first registration without it
-- column to_time: end, exclusive; NULL = not over
-- column event_id: that registration
-- column closed_by: event that ended it
SELECT namesrv_id, broker_name, topic, valid_from AS from_time, valid_to AS to_time, opened_by AS event_id, closed_by
FROM orphaned_topics
WHERE reason = 'residual' AND (:broker IS NULL OR broker_name = :broker) AND (:until IS NULL OR valid_from < :until)
    AND (:since IS NULL OR valid_to IS NULL OR valid_to > :since)
ORDER BY from_time, namesrv_id, broker_name, topic

CREATE OR REPLACE TEMPORARY VIEW cause_events
COMMENT 'Recorded events that may have an outcome of their own: all but plain beats'
AS
SELECT
    namesrv_id, day, event_id, cluster_name, broker_name, broker_addr, broker_id, topic, channel_id, detail,
    source_file, source_offset
FROM events
WHERE kind NOT IN ('broker_heartbeat', 'query_data_version')
UNION ALL
-- Beats are by far the most, and each id of one must be made: they are read on those days that tell of one.
SELECT
    b.namesrv_id, b.day, b.event_id, b.cluster_name, b.broker_name, b.broker_addr, b.broker_id, NULL, b.channel_id,
    NULL, b.source_file, b.source_offset
FROM (
    SELECT namesrv_id, day, event_id FROM event_outcomes
    WHERE operation IN ('broker_heartbeat', 'query_data_version')
) AS s
JOIN heartbeats AS b ON b.namesrv_id = s.namesrv_id AND b.day = s.day AND b.event_id = s.event_id

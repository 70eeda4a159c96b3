-- Recorded events that may have an outcome of their own: all but plain heartbeats
-- columns: namesrv_id, day
-- column event_id: event_id of the event
-- column cluster_name: Cluster in the request
-- column broker_name: Broker name in the request
-- column broker_addr: Broker address in the request
-- column broker_id: Broker id in the request, 0 = master
-- column topic: Topic in the request
-- column channel_id: Connection; NULL where there is none
-- column detail: Refusal, KV entry, side that closed the connection, or evidence
-- column source_file: File that the row was read from
-- column source_offset: Packet or line number in that file, from 1
-- column ingest_run: Run that read the row
SELECT
    namesrv_id, day, event_id, cluster_name, broker_name, broker_addr, broker_id, topic, channel_id, detail,
    source_file, source_offset, ingest_run
FROM other_events
UNION ALL
-- Heartbeats are by far the most rows, and each id must be computed: only days with an outcome of a heartbeat are read.
SELECT
    b.namesrv_id, b.day, b.event_id, b.cluster_name, b.broker_name, b.broker_addr, b.broker_id, NULL, b.channel_id,
    NULL, b.source_file, b.source_offset, b.ingest_run
FROM (
    SELECT namesrv_id, day, event_id FROM event_outcomes
    WHERE operation IN ('broker_heartbeat', 'query_data_version')
) AS s
JOIN heartbeats AS b ON b.namesrv_id = s.namesrv_id AND b.day = s.day AND b.event_id = s.event_id

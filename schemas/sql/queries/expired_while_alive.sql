-- Which brokers were removed though they were alive, back within some seconds, and how long were they away?
-- group: liveness
-- parameter seconds INT = 60: back within so many seconds
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column broker_name: broker name
-- column broker_addr: broker address
-- column cause: scan or idle_channel
-- column removed_time: when it was removed
-- column returned_time: when it was back
-- column away_ms: milliseconds between them
-- column removed_by: event that removed it
-- column returned_by: registration with which it was back
SELECT
    namesrv_id, broker_name, broker_addr, cause, removed_time, returned_time,
    timestampdiff(MILLISECOND, removed_time, returned_time) AS away_ms, removed_by, returned_by
FROM expired_brokers
WHERE timestampdiff(MILLISECOND, removed_time, returned_time) <= 1000 * :seconds AND (:since IS NULL OR removed_time >= :since)
    AND (:until IS NULL OR removed_time < :until)
ORDER BY removed_time, namesrv_id, broker_addr

-- Which registered addresses can other machines hardly reach: loopback, or the 172.16/12 of containers?
-- group: identity and roles
-- parameter since TIMESTAMP = NULL: start of the time that is looked at; all of it if not given
-- parameter until TIMESTAMP = NULL: end of it, exclusive
-- column namesrv_id: name server
-- column cluster_name: cluster
-- column broker_name: broker name
-- column broker_id: broker id, 0 = master
-- column broker_addr: broker address
-- column from_time: start
-- column to_time: end, exclusive; NULL = not over
-- column opened_by: event that began it
SELECT
    namesrv_id, cluster_name, broker_name, broker_id, broker_addr, valid_from AS from_time, valid_to AS to_time, opened_by
FROM broker_addr_history
WHERE broker_addr RLIKE r'^(127\.|172\.(1[6-9]|2[0-9]|3[01])\.|localhost)'
    AND (:until IS NULL OR valid_from < :until)
    AND (:since IS NULL OR valid_to IS NULL OR valid_to > :since)
ORDER BY from_time, namesrv_id, broker_name, broker_id

-- Which registered addresses can other machines hardly reach: loopback, unspecified, link-local, a container's, without a port?
-- parameters: since, until
-- columns: namesrv_id
-- column cluster_name: cluster
-- columns: broker_name
-- column broker_id: broker id, 0 = master; NULL for a haServerAddr
-- columns: broker_addr
-- column what: which address the row is about: broker address or haServerAddr
-- column ha_server_addr: haServerAddr; NULL if the row is about the broker address
-- column kind: reason: loopback, unspecified, link-local, container default, no port or no address
-- columns: from_time, to_time
-- column opened_by: event that began it
WITH addresses AS (
    SELECT
        struct(
            namesrv_id, cluster_name, broker_name, broker_id, broker_addr, 'broker address' AS what,
            CAST(NULL AS STRING) AS ha_server_addr, {address_kind(broker_addr)} AS kind
        ) AS what,
        valid_from, valid_to, opened_by, closed_by, opened_at
    FROM broker_addr_history
    UNION ALL
    SELECT
        struct(
            namesrv_id, cluster_name, broker_name, CAST(NULL AS BIGINT) AS broker_id, broker_addr, 'haServerAddr' AS what,
            ha_server_addr, {address_kind(ha_server_addr)} AS kind
        ),
        valid_from, valid_to, opened_by, closed_by, opened_at
    FROM broker_live_history
    WHERE ha_server_addr <> ''
        AND (
            {address_kind(broker_addr)} IS NULL
            OR regexp_replace(broker_addr, ':[^:]*$', '') <> regexp_replace(ha_server_addr, ':[^:]*$', '')
        )
)
SELECT
    what.namesrv_id, what.cluster_name, what.broker_name, what.broker_id, what.broker_addr, what.what, what.ha_server_addr,
    what.kind, from_time, to_time, opened_by
FROM {stays(addresses)} AS found
WHERE what.kind IS NOT NULL AND {overlaps(from_time, to_time)}
ORDER BY from_time, what.namesrv_id, what.broker_name, what.what, what.broker_id

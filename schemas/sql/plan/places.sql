-- The place of each event: that of its node, of all, or where what has none goes.
WITH concerned AS (
    -- The start and stop of the server, and a topic's deletion, concern whoever is registered.
    SELECT *, kind = 'namesrv_events' OR code IS NOT DISTINCT FROM $deletion AS concerns_all FROM events
), own AS (
    SELECT row, if(list_contains($kv, code), 'kv', 'elsewhere') AS otherwise,
        CASE
            WHEN kind IN ('heartbeats', 'registrations', 'unregistrations') THEN coalesce('a:' || broker_addr, 'a')
            WHEN list_contains($permissions, code) THEN coalesce('n:' || broker_name, 'n')
            ELSE coalesce(
                'a:' || broker_addr, 'n:' || broker_name, 'n:' || queue_datas[1].broker_name,
                if(kind = 'channel_events', 'c:' || channel_id, NULL), 'a:' || remote_addr
            )
        END AS node
    FROM concerned WHERE NOT concerns_all
)
SELECT row, coalesce(found.place, instead.place) AS place FROM own
    LEFT JOIN nodes AS found USING (node)
    LEFT JOIN nodes AS instead ON instead.node = own.otherwise
    WHERE coalesce(found.place, instead.place) IS NOT NULL
UNION ALL
SELECT row, place FROM concerned, (SELECT DISTINCT place FROM nodes) WHERE concerns_all

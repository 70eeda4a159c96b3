-- Name servers with an answer that shows a broker which sent heartbeats to another name server, but not to this one.
SELECT DISTINCT t.namesrv_id
FROM (SELECT DISTINCT namesrv_id, unnest(brokers) AS broker_addr FROM lists) AS t
SEMI JOIN beats AS h ON h.broker_addr = t.broker_addr AND h.namesrv_id <> t.namesrv_id
ANTI JOIN beats AS own ON own.broker_addr = t.broker_addr AND own.namesrv_id = t.namesrv_id

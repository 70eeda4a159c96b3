-- Each two name servers: how many brokers has that which has fewer, how many beat at both at the same time, and at one alone.
WITH counts AS (SELECT namesrv_id, count(broker_addr) AS brokers FROM beats GROUP BY ALL)
SELECT a.namesrv_id AS one, b.namesrv_id AS other, least(a.brokers, b.brokers) AS fewer,
    (SELECT count(*) FROM beats AS x JOIN beats AS y USING (broker_addr)
        WHERE x.namesrv_id = a.namesrv_id AND y.namesrv_id = b.namesrv_id
        AND x.first_seq < y.last_seq AND y.first_seq < x.last_seq) AS at_both,
    (SELECT count(*) FROM (SELECT broker_addr FROM beats WHERE namesrv_id IN (a.namesrv_id, b.namesrv_id)
        AND broker_addr IS NOT NULL GROUP BY broker_addr HAVING count(*) = 1)) AS brokers
FROM counts AS a JOIN counts AS b ON a.namesrv_id < b.namesrv_id

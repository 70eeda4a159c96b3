-- Brokers in the tables of a name server.
SELECT * FROM broker_lives WHERE {of_namesrv} AND {of_brokers} AND {alive}
ORDER BY namesrv_id, broker_name, broker_addr, from_time

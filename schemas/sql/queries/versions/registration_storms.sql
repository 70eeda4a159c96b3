-- Which brokers send storms of full registrations, so many in a minute or more?
-- parameter times INT = 5: so many registrations in a minute are a storm
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column minute: start of the minute
-- column registrations: full registrations in that minute
-- column changed: how many of them had other topics than the registration before
-- column event_id: event_id of the first of them
SELECT
    namesrv_id, broker_name, broker_addr, minute, count(*) AS registrations, sum(is_other) AS changed,
    min_by(event_id, seq) AS event_id
FROM (
    SELECT
        x.*, date_trunc('MINUTE', x.effect_time) AS minute,
        IF(lag(x.topic_config_digest) OVER (
            PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr ORDER BY x.seq
        ) <=> x.topic_config_digest, 0, 1) AS is_other
    FROM registrations AS x
) AS r
WHERE {within(effect_time)}
GROUP BY namesrv_id, broker_name, broker_addr, minute
-- max(), because DuckDB takes a macro's argument for a column
HAVING count(*) >= max(:times)
ORDER BY registrations DESC, minute, namesrv_id, broker_addr

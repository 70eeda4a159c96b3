-- Which brokers' registrations come near the 16 MiB that a frame may have?
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column registrations: how many
-- column max_topics: most topics in one
-- column max_bytes: longest body, on the wire
-- column frame_share: that, in percent of a frame
-- column event_id: the longest
SELECT
    namesrv_id, broker_name, broker_addr, count(*) AS registrations, max(topic_count) AS max_topics,
    max(body_bytes) AS max_bytes, round(CAST(100 AS DOUBLE) * max(body_bytes) / 16777216, 3) AS frame_share,
    max_by(event_id, struct(body_bytes, seq)) AS event_id
FROM registrations
WHERE {within(effect_time)}
GROUP BY namesrv_id, broker_name, broker_addr
ORDER BY max_bytes DESC, namesrv_id, broker_addr

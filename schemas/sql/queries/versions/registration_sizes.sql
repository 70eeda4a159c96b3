-- Which brokers' registrations come near the limit of a frame, 16 MiB?
-- parameters: since, until
-- columns: namesrv_id, broker_name, broker_addr
-- column registrations: number of registrations
-- column max_topics: most topics in one registration
-- column max_bytes: bytes of the longest body, on the wire
-- column frame_share: max_bytes in percent of that limit
-- column event_id: event_id of the longest registration
SELECT
    namesrv_id, broker_name, broker_addr, count(*) AS registrations, max(topic_count) AS max_topics,
    max(body_bytes) AS max_bytes, round(CAST(100 AS DOUBLE) * max(body_bytes) / 16777216, 3) AS frame_share,
    max_by(event_id, struct(body_bytes, seq)) AS event_id
FROM registrations
WHERE {within(effect_time)}
GROUP BY namesrv_id, broker_name, broker_addr
ORDER BY max_bytes DESC, namesrv_id, broker_addr

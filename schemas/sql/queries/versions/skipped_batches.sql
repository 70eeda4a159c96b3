-- Which registrations had topics that the name server skipped because it already had their version?
-- parameters: broker, since, until
-- columns: namesrv_id, broker_name, broker_addr, effect_time
-- column topics: topics in the registration
-- column skipped: topics in it that the name server did not hold in that form afterwards
-- column names: the first five skipped topics
-- column outcome: outcome of the registration; refreshed: only the lease was renewed
-- columns: event_id, source_file, source_offset
WITH skipped AS (
    SELECT r.*, coalesce(o.outcome, 'refreshed') AS outcome
    FROM (
        SELECT
            x.*, lag(x.data_version) OVER of_broker AS version_before, lag(x.topic_config_digest) OVER of_broker AS digest_before
        FROM registrations AS x
        WHERE x.refusal IS NULL
        WINDOW of_broker AS (PARTITION BY x.namesrv_id, x.broker_name, x.broker_addr ORDER BY x.seq)
    ) AS r
    LEFT JOIN event_outcomes AS o ON o.namesrv_id = r.namesrv_id AND o.day = r.day AND o.event_id = r.event_id
    -- a name server never takes topics over from slaves
    WHERE r.version_before = r.data_version AND r.digest_before <> r.topic_config_digest AND r.broker_id = 0
        AND coalesce(o.outcome, 'refreshed') <> 'applied' AND (:broker IS NULL OR r.broker_name = :broker)
        AND {within(r.effect_time)}
)
SELECT
    s.namesrv_id, s.broker_name, s.broker_addr, s.effect_time, s.topic_count AS topics, count(*) AS skipped,
    array_join(slice(array_sort(collect_list(t.config.topic)), 1, 5), ', ') AS names, s.outcome, s.event_id, s.source_file,
    s.source_offset
FROM skipped AS s
JOIN (SELECT topic_config_digest, explode(topics) AS config FROM topic_configs) AS t
    ON t.topic_config_digest = s.topic_config_digest
LEFT ANTI JOIN topic_queue_history AS h
    ON h.namesrv_id = s.namesrv_id AND h.broker_name = s.broker_name AND h.topic = t.config.topic
    AND h.read_queue_nums = t.config.read_queue_nums AND h.write_queue_nums = t.config.write_queue_nums
    AND h.perm = t.config.perm
    AND h.valid_from <= s.effect_time AND (h.valid_to IS NULL OR h.valid_to > s.effect_time)
GROUP BY ALL
ORDER BY s.effect_time, s.namesrv_id, s.broker_addr

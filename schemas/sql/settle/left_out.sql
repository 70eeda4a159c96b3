-- Topics that a master's registration left out after the one before had had them (`digests`: those that have them), from there on
-- until one has them again, or something else may have taken them.
WITH registered AS (
    SELECT unnest([first_seq, last_seq]) AS seq, broker_name, broker_addr, broker_id, topic_config_digest AS digest, last_seq
    FROM hours WHERE kind = 'registrations' AND refusal IS NULL AND topic_config_digest IS NOT NULL
        AND broker_name IN (SELECT broker_name FROM left_out)
), changing AS (
    SELECT * FROM registered WINDOW of_name AS (PARTITION BY broker_name ORDER BY seq)
    QUALIFY lag(digest) OVER of_name IS DISTINCT FROM digest OR lead(digest) OVER of_name IS DISTINCT FROM digest
        OR lag(broker_id) OVER of_name IS DISTINCT FROM broker_id
), said AS (
    SELECT topic, changing.*, list_contains(digests, digest) AS has_it
    FROM changing JOIN left_out USING (broker_name) WHERE broker_id = 0 OR has_it
), placed AS (
    SELECT *, lag(has_it) OVER of_topic AND NOT has_it AS begins, lag(seq) OVER of_topic AS had_seq,
        lag(broker_addr) OVER of_topic AS had_addr, lag(broker_id) OVER of_topic AS had_id,
        max(if(has_it, last_seq, NULL)) OVER (of_topic ROWS UNBOUNDED PRECEDING) AS had_until_seq,
        min(if(has_it, seq, NULL)) OVER (of_topic ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS again_seq
    FROM said WINDOW of_topic AS (PARTITION BY topic, broker_name ORDER BY seq)
), gone AS (
    SELECT DISTINCT ends.seq, broker_name, NULL AS topic FROM ends JOIN hours USING (channel_id)
    UNION ALL SELECT seq, broker_name, NULL FROM unregistrations
    UNION ALL SELECT seq, NULL, topic FROM requests WHERE list_contains($of_topics, code)
    UNION ALL SELECT seq, NULL, NULL FROM life WHERE kind IN ('started', 'stopped', 'recording_gap')
)
SELECT placed.topic, placed.broker_name, any_value(had_addr) AS broker_addr, had_seq, placed.seq AS since_seq,
    least(any_value(again_seq), min(gone.seq)) AS until_seq, any_value(had_id = 0) AS is_masters
FROM placed LEFT JOIN gone ON gone.seq > had_seq
    AND coalesce(gone.broker_name = placed.broker_name, TRUE) AND coalesce(gone.topic = placed.topic, TRUE)
WHERE begins AND had_until_seq < placed.seq
GROUP BY placed.topic, placed.broker_name, had_seq, since_seq HAVING coalesce(min(gone.seq) > since_seq, TRUE)

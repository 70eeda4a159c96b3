-- Topics that a master's registration left out although the one before had them (`digests`: topic tables that have them; one of
-- those with `static` topics deletes none). The span lasts until a registration has them again, or another event may have removed them.
WITH registered AS (
    SELECT unnest([first_seq, last_seq]) AS seq, broker_name, broker_addr, broker_id, topic_config_digest AS digest, last_seq
    FROM hours WHERE kind = 'registrations' AND refusal IS NULL AND topic_config_digest IS NOT NULL
        AND broker_name IN (SELECT broker_name FROM left_out)
), changing AS (
    SELECT * FROM registered WINDOW of_name AS (PARTITION BY broker_name ORDER BY seq)
    QUALIFY lag(digest) OVER of_name IS DISTINCT FROM digest OR lead(digest) OVER of_name IS DISTINCT FROM digest
        OR lag(broker_id) OVER of_name IS DISTINCT FROM broker_id
), listed AS (
    SELECT topic, changing.*, list_contains(digests, digest) AS has_it
    FROM changing JOIN left_out USING (broker_name) WHERE broker_id = 0 OR has_it
), placed AS (
    SELECT *, lag(has_it) OVER of_topic AND NOT has_it AS begins, lag(seq) OVER of_topic AS had_seq,
        lag(broker_addr) OVER of_topic AS had_addr, lag(broker_id) OVER of_topic AS had_id,
        max(if(has_it, last_seq, NULL)) OVER (of_topic ROWS UNBOUNDED PRECEDING) AS had_until_seq,
        min(if(has_it, seq, NULL)) OVER (of_topic ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS again_seq
    FROM listed WINDOW of_topic AS (PARTITION BY topic, broker_name ORDER BY seq)
), left_once AS (
    SELECT topic, broker_name, broker_addr, had_id = 0 AND had_addr = broker_addr AS is_masters, had_seq, seq AS since_seq, again_seq
    FROM placed WHERE begins AND had_until_seq < seq AND NOT list_contains($static, digest)
), names_gone AS (
    SELECT DISTINCT broker_name, ends.seq FROM ends JOIN hours USING (channel_id)
    UNION ALL SELECT broker_name, seq FROM unregistrations
), topics_gone AS (
    SELECT topic, seq FROM requests WHERE list_contains($of_topics, code)
), lives AS (
    SELECT seq FROM life WHERE kind IN ('started', 'stopped', 'recording_gap')
)
SELECT left_once.* EXCLUDE (again_seq), least(again_seq, names_gone.seq, topics_gone.seq, lives.seq) AS until_seq
FROM left_once
ASOF LEFT JOIN names_gone ON left_once.broker_name = names_gone.broker_name AND had_seq < names_gone.seq
ASOF LEFT JOIN topics_gone ON left_once.topic = topics_gone.topic AND had_seq < topics_gone.seq
ASOF LEFT JOIN lives ON had_seq < lives.seq
WHERE coalesce(least(names_gone.seq, topics_gone.seq, lives.seq) > since_seq, TRUE)

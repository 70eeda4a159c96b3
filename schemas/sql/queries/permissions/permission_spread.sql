-- Was a change of permission seen on every name server, and how late on each?
-- parameter topic STRING = NULL: only this topic
-- parameters: since, until
-- columns: topic, broker_name
-- column perm_before: permission bits before
-- column perm_after: permission bits after
-- columns: namesrv_id, effect_time
-- column lag_ms: milliseconds after the first name server that had the change
-- column missing: number of name servers with that broker's topic that did not have the change in the same turn
-- columns: event_id
WITH turns AS (
    SELECT
        q.*, row_number() OVER (
            PARTITION BY q.namesrv_id, q.topic, q.broker_name, q.perm_before, q.perm_after ORDER BY q.effect_time
        ) AS turn
    FROM queue_changes AS q
    WHERE q.perm_before <> q.perm_after AND (:topic IS NULL OR q.topic = :topic) AND {within(q.effect_time)}
), seen AS (
    SELECT
        topic, broker_name, perm_before, perm_after, turn, min(effect_time) AS first_time,
        count(DISTINCT namesrv_id) AS name_servers
    FROM turns
    GROUP BY topic, broker_name, perm_before, perm_after, turn
), known AS (
    SELECT topic, broker_name, count(DISTINCT namesrv_id) AS name_servers FROM topic_queue_history GROUP BY topic, broker_name
)
SELECT
    t.topic, t.broker_name, t.perm_before, t.perm_after, t.namesrv_id, t.effect_time,
    timestampdiff(MILLISECOND, s.first_time, t.effect_time) AS lag_ms, k.name_servers - s.name_servers AS missing, t.event_id
FROM turns AS t
JOIN seen AS s
    ON s.topic = t.topic AND s.broker_name = t.broker_name AND s.perm_before = t.perm_before
    AND s.perm_after = t.perm_after AND s.turn = t.turn
JOIN known AS k ON k.topic = t.topic AND k.broker_name = t.broker_name
ORDER BY s.first_time, t.topic, t.broker_name, t.effect_time, t.namesrv_id

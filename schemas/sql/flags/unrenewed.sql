-- Requests of brokers between the last heartbeat that renewed their lease and their removal, one row for each broker with any.
-- Requests refused by then are counted separately from those handled only later. `outcomes`: outcomes of heartbeats that renewed nothing.
WITH came AS (
    SELECT
        e.removed_by, e.broker_addr, b.event_time, b.event_id,
        b.effect_time <= e.removed_time AND (b.refusal IS NOT NULL OR o.outcome IN (
            'no_effect', 'rejected_state_version', 'refused_lone_topic', 'refused_request'
        )) AS is_refused,
        CASE
            WHEN b.refusal IS NOT NULL THEN b.refusal
            WHEN o.outcome = 'no_effect' THEN 'request code ' || b.code || ' is not supported'
            ELSE coalesce(if(o.outcome = 'refused_request', o.detail, NULL), o.outcome)
        END AS reason
    FROM expired AS e
    JOIN beats AS b
        ON b.broker_addr IS NOT DISTINCT FROM e.broker_addr AND b.event_time > e.last_beat_time AND b.event_time <= e.removed_time
    LEFT JOIN outcomes AS o ON o.event_id = b.event_id
)

SELECT
    removed_by, broker_addr, count(*) AS beats, count_if(is_refused) AS refused,
    min(event_time) FILTER (is_refused) AS refused_since, arg_min(event_id, event_time) FILTER (is_refused) AS refused_by,
    list_sort(list(DISTINCT reason) FILTER (is_refused)) AS reasons
FROM came
GROUP BY removed_by, broker_addr

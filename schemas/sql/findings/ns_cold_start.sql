-- Starts of a name server: it knows no route until brokers register again. A start that is followed by another before that counts
-- with the next one, as when a name server crashes again and again. The first start lasts until the first route. Any other start
-- lasts until all topics lost with an earlier process are back or deleted, until the next stop or start, or until the wait for
-- them ends. If it outlasts its day, the topics that the finding names are looked for.
-- meaning: a name server started: it knows no route until brokers register again, and topics that it had are not back
-- severity: warning
-- remedy: Restart name servers one by one, and wait until the brokers are back; create or register the topics that stay away
WITH turns AS (
    SELECT
        *, lead(seq) OVER in_time AS next_seq, lead(effect_time) OVER in_time AS next_time, lead(event_id) OVER in_time AS next_by
    FROM event_outcomes
    WHERE operation IN ('namesrv_started', 'namesrv_stopped')
    WINDOW in_time AS (ORDER BY seq)
),

starts AS (
    FROM turns WHERE operation = 'namesrv_started' AND effect_time >= $start
),

openings AS (
    SELECT
        topic, opened_at.seq AS seq, min(valid_from) AS valid_from, arg_min(opened_by, opened_at.no) AS opened_by
    FROM topic_queue_history
    GROUP BY topic, opened_at.seq
),

-- topics that left with the process, until they came back or were deleted
away AS (
    SELECT c.topic, c.seq, o.seq AS back_seq, d.seq AS deleted_seq
    FROM (
        SELECT DISTINCT q.topic, t.seq FROM turns AS t JOIN topic_queue_history AS q ON q.closed_by = t.event_id WHERE q.topic IS NOT NULL
    ) AS c
    ASOF LEFT JOIN openings AS o ON o.topic = c.topic AND o.seq > c.seq
    ASOF LEFT JOIN (FROM event_outcomes WHERE operation = 'delete_topic') AS d ON d.topic = c.topic AND d.seq > c.seq
),

lost AS (
    SELECT DISTINCT s.seq, s.next_seq, a.topic
    FROM away AS a
    JOIN starts AS s ON s.seq >= a.seq AND s.seq <= coalesce(a.back_seq, 9223372036854775807)
    WHERE a.deleted_seq IS NULL OR a.deleted_seq >= s.next_seq
),

back AS (
    SELECT
        l.seq, l.topic, if(o.seq >= l.next_seq, NULL, o.valid_from) AS back_time, if(o.seq >= l.next_seq, NULL, o.opened_by) AS back_by
    FROM lost AS l
    ASOF LEFT JOIN openings AS o ON o.topic = l.topic AND o.seq > l.seq
),

waited AS (
    SELECT
        seq, count(*) AS topics, count(back_time) AS topics_back, max(back_time) AS last_time, arg_max(back_by, back_time) AS last_by,
        list_sort(list(topic)) AS names, list_sort(list(topic) FILTER (back_time IS NULL)) AS away
    FROM back
    GROUP BY seq
),

first_routes AS (
    SELECT s.seq, o.first_time, o.first_by
    FROM starts AS s
    ASOF JOIN (
        SELECT opened_at.seq AS seq, min(valid_from) AS first_time, arg_min(opened_by, opened_at.no) AS first_by
        FROM topic_queue_history
        GROUP BY opened_at.seq
    ) AS o ON o.seq > s.seq
    WHERE s.next_seq IS NULL OR o.seq < s.next_seq
),

placed AS (
    SELECT
        s.*, f.first_time, f.first_by, count(f.first_time) OVER (
            ORDER BY s.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS run
    FROM starts AS s
    LEFT JOIN first_routes AS f ON f.seq = s.seq
),

runs AS (
    SELECT
        * REPLACE (first(effect_time) OVER of_run AS effect_time, first(event_id) OVER of_run AS event_id),
        count(*) OVER of_run AS times
    FROM placed
    WINDOW of_run AS (PARTITION BY run ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    QUALIFY seq = last(seq) OVER of_run
)

SELECT
    'warning' AS severity, s.namesrv_id AS subject, s.effect_time AS from_time,
    coalesce(if(w.topics_back < w.topics, NULL, coalesce(w.last_time, s.first_time)), s.next_time) AS to_time,
    if(s.times > 1, s.times || ' starts; ', '') || coalesce(
        'first route ' || (epoch_us(s.first_time) - epoch_us(s.effect_time)) // 1000 || ' ms after the '
            || if(s.times > 1, 'first one', 'start'),
        'no route until midnight'
    ) || CASE
        WHEN w.topics_back < w.topics THEN '; ' || w.topics - w.topics_back || ' of the ' || w.topics
            || ' topics that it had before are not back: ' || array_to_string(w.away[1:10], ', ')
        WHEN w.topics > 0 THEN '; all ' || w.topics || ' topics that it had before back '
            || (epoch_us(w.last_time) - epoch_us(s.effect_time)) // 1000 || ' ms after it'
        ELSE ''
    END AS detail,
    [
        s.event_id, s.first_by,
        if(w.topics_back < w.topics OR s.first_by IS NULL, s.next_by, w.last_by)
    ] AS evidence,
    if(w.topics_back < w.topics, w.away, w.names) AS topic_names
FROM runs AS s
LEFT JOIN waited AS w ON w.seq = s.seq
UNION ALL
SELECT
    s.severity, s.subject, s.from_time,
    least(
        if(len(s.topic_names) = 0, b.first_time, if(b.topics = len(s.topic_names), b.last_time, NULL)),
        (SELECT min(effect_time) FROM turns WHERE effect_time >= $start),
        if(
            epoch_us(s.from_time) + $waited_us < epoch_us($start) + 86400000000,
            make_timestamptz(epoch_us(s.from_time) + $waited_us), NULL
        )
    ),
    s.detail, [s.evidence[1], if(len(s.topic_names) = 0, b.first_by, b.last_by)],
    s.topic_names
FROM open_findings AS s, LATERAL (
    SELECT
        count(*) AS topics, min(back_time) AS first_time, max(back_time) AS last_time,
        arg_min(back_by, back_time) AS first_by, arg_max(back_by, back_time) AS last_by
    FROM (
        SELECT topic, min(valid_from) AS back_time, arg_min(opened_by, (opened_at.seq, opened_at.no)) AS back_by
        FROM topic_queue_history
        WHERE valid_from > s.from_time AND (len(s.topic_names) = 0 OR list_contains(s.topic_names, topic))
        GROUP BY topic
    ) AS topics
) AS b

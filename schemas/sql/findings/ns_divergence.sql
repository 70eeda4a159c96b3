-- Broker names for which a name server lacked topics that others routed to them. `queues`: the day's rows of topic_queue_history;
-- `served`: times in which each name server's registry existed and was known, of name servers that share brokers; `open_findings`: the
-- open findings of all of them. What began before the day begins with the day here; the first evidence of the broker's open finding
-- is what began it.
-- meaning: a name server lacked topics that others routed to a broker
-- severity: warning
-- threshold: diverged_after_s
-- remedy: Check that the broker has all name servers in namesrvAddr and reaches them, and what each was asked to delete
WITH servers AS (
    SELECT DISTINCT namesrv_id FROM served
),

had AS (
    SELECT
        namesrv_id, broker_name, topic, epoch_us(valid_from) AS from_us,
        coalesce(epoch_us(valid_to), 9223372036854775807) AS until_us, opened_by, closed_by
    FROM queues
),

odd AS (
    SELECT broker_name, topic
    FROM had
    GROUP BY broker_name, topic
    HAVING count_if(from_us <= epoch_us($start) AND closed_by IS NULL) < (SELECT count(*) FROM servers)
),

points AS (
    SELECT DISTINCT broker_name, topic, unnest([from_us, until_us]) AS at_us FROM had SEMI JOIN odd USING (broker_name, topic)
    UNION
    SELECT broker_name, topic, unnest([s.from_us, s.until_us]) FROM odd, served AS s
),

states AS (
    SELECT
        p.broker_name, p.topic, p.at_us, n.namesrv_id, v.namesrv_id IS NOT NULL AS is_served,
        h.namesrv_id IS NOT NULL AS is_there, bool_or(is_served AND is_there) OVER at_once AS is_known,
        is_served AND count_if(is_served) OVER at_once > 1 AS is_compared,
        list(n.namesrv_id) FILTER (is_served AND is_there) OVER at_once AS known_to,
        min(h.opened_by) FILTER (is_served AND is_there) OVER at_once AS kept_by
    FROM points AS p
    CROSS JOIN servers AS n
    LEFT JOIN served AS v ON v.namesrv_id = n.namesrv_id AND v.from_us <= p.at_us AND v.until_us > p.at_us
    LEFT JOIN had AS h
        ON h.namesrv_id = n.namesrv_id AND h.broker_name = p.broker_name AND h.topic = p.topic
        AND h.from_us <= p.at_us AND h.until_us > p.at_us
    WINDOW at_once AS (PARTITION BY p.broker_name, p.topic, p.at_us)
),

steps AS (
    SELECT
        *, is_served AND NOT is_there AND is_known AS is_lacking,
        lead(at_us) OVER in_time AS next_us, count_if(NOT is_lacking) OVER in_time AS part
    FROM states
    WINDOW in_time AS (PARTITION BY namesrv_id, broker_name, topic ORDER BY at_us)
),

compared AS (
    SELECT
        *, min(at_us) FILTER (is_compared) OVER of_all AS first_us, max(next_us) FILTER (is_compared) OVER of_all AS last_us
    FROM steps
    WINDOW of_all AS (PARTITION BY namesrv_id, broker_name, topic)
),

lacks AS (
    SELECT
        namesrv_id, broker_name, topic, min(at_us) AS from_us, max(next_us) AS until_us,
        arg_min(known_to, at_us) AS known_to, arg_min(kept_by, at_us) AS kept_by,
        bool_or(at_us = first_us) AS is_first, bool_or(next_us = last_us) AS is_open
    FROM compared
    WHERE is_lacking
    GROUP BY namesrv_id, broker_name, topic, part
),

-- the open finding of a broker: one that names it, or else one that has more brokers than it names
stood AS (
    SELECT DISTINCT ON (l.namesrv_id, l.broker_name) l.namesrv_id, l.broker_name, s.evidence[1] AS begun_by
    FROM (SELECT DISTINCT namesrv_id, broker_name FROM lacks WHERE is_first) AS l
    JOIN open_findings AS s ON s.namesrv_id = l.namesrv_id
    WHERE list_contains(s.broker_names, l.broker_name) OR s.brokers > len(s.broker_names)
    ORDER BY
        l.namesrv_id, l.broker_name, list_contains(s.broker_names, l.broker_name) DESC, s.from_time DESC, begun_by
),

ended AS (
    SELECT
        l.* EXCLUDE (is_open), l.is_open AND back.opened_by IS NULL AS is_open, s.begun_by,
        l.is_first AND s.begun_by IS NOT NULL AS was_open, lost.closed_by AS lost_by, back.opened_by AS back_by
    FROM lacks AS l
    LEFT JOIN stood AS s ON s.namesrv_id = l.namesrv_id AND s.broker_name = l.broker_name
    LEFT JOIN had AS lost
        ON lost.namesrv_id = l.namesrv_id AND lost.broker_name = l.broker_name AND lost.topic = l.topic
        AND lost.until_us = l.from_us
    LEFT JOIN had AS back
        ON back.namesrv_id = l.namesrv_id AND back.broker_name = l.broker_name AND back.topic = l.topic
        AND back.from_us = l.until_us
    WHERE l.until_us - l.from_us >= $diverged_us OR was_open
),

-- overlapping times of one broker are joined
intervals AS (
    SELECT
        *, coalesce(from_us > max(until_us) OVER (
            PARTITION BY namesrv_id, broker_name ORDER BY from_us, until_us, topic
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE) AS begins
    FROM ended
),

numbered AS (
    SELECT *, count_if(begins) OVER (PARTITION BY namesrv_id, broker_name ORDER BY from_us, until_us, topic) AS number FROM intervals
)

SELECT
    namesrv_id, 'warning' AS severity, broker_name AS subject,
    if(bool_or(was_open), $start, make_timestamptz(min(from_us))) AS from_time,
    if(bool_or(is_open), NULL, make_timestamptz(max(until_us))) AS to_time,
    count(DISTINCT topic) || if(count(DISTINCT topic) = 1, ' topic', ' topics') || ' that '
        || array_to_string(list_sort(list_distinct(flatten(list(known_to)))), ', ') || ' routed to ' || broker_name
        || ' and ' || namesrv_id || ' did not: ' || array_to_string(list_sort(list(DISTINCT topic))[1:10], ', ') AS detail,
    [
        arg_min(if(was_open, begun_by, coalesce(lost_by, kept_by)), (from_us, topic)),
        if(bool_or(is_open), NULL, arg_max(back_by, (until_us, topic)))
    ] AS evidence,
    [broker_name] AS broker_names, list_sort(list(DISTINCT topic)) AS topic_names
FROM numbered
GROUP BY namesrv_id, broker_name, number

-- Name servers of one cluster that share no broker, of which one refused topics (TOPIC_NOT_EXIST) that another routed. `refused`:
-- such answers of the day, by name server and topic; `queues`: the day's rows of topic_queue_history; `served`: times in which each
-- registry existed and was known; `fleet`: the name servers that share brokers; `open_findings`: the open findings of all of them. What
-- began before the day begins with the day here.
-- meaning: name servers of one cluster share no broker: one refuses clients the topics that another routes
-- severity: critical
-- threshold: diverged_after_s
-- remedy: Put all name servers of the cluster into namesrvAddr of all its brokers, or each fleet's own name servers into that of its clients
WITH had AS (
    SELECT
        q.namesrv_id, f.cluster_name, f.fleet, q.topic, q.broker_name, epoch_us(q.valid_from) AS from_us,
        coalesce(epoch_us(q.valid_to), 9223372036854775807) AS until_us, q.opened_by, q.closed_by
    FROM queues AS q
    JOIN fleets AS f ON f.namesrv_id = q.namesrv_id AND f.broker_name = q.broker_name
    WHERE q.topic NOT IN ('TBW102', 'SELF_TEST_TOPIC', 'BenchmarkTest', 'OFFSET_MOVED_EVENT', 'SCHEDULE_TOPIC_XXXX')
        AND q.topic <> f.cluster_name
),

clusters AS (
    SELECT DISTINCT namesrv_id, cluster_name, fleet FROM fleets
),

asked AS (
    SELECT namesrv_id, topic, first_us, last_us, answers, clients, event_id, FALSE AS was_open FROM refused
    UNION ALL
    SELECT namesrv_id, unnest(topic_names), epoch_us($start), epoch_us($start), 0, 0, NULL, TRUE FROM open_findings
),

lacks AS (
    SELECT
        a.namesrv_id, c.cluster_name, a.topic, a.answers, a.clients, a.event_id, a.was_open,
        greatest(any_value(a.first_us), min(o.from_us)) AS since_us, max(o.until_us) AS until_us,
        list(DISTINCT o.namesrv_id || ' (' || o.broker_name || ')') AS known_to, list(DISTINCT o.broker_name) AS broker_names,
        arg_max(o.closed_by, o.until_us) AS lost_by
    FROM asked AS a
    JOIN clusters AS c ON c.namesrv_id = a.namesrv_id
    JOIN had AS o
        ON o.topic = a.topic AND o.cluster_name = c.cluster_name AND o.fleet <> c.fleet
        AND o.from_us <= a.last_us AND o.until_us > a.first_us
    GROUP BY a.namesrv_id, c.cluster_name, a.topic, a.answers, a.clients, a.event_id, a.was_open
),

ended AS (
    SELECT
        l.*, min(h.from_us) AS back_us, arg_min(h.opened_by, h.from_us) AS back_by
    FROM lacks AS l
    LEFT JOIN had AS h ON h.namesrv_id = l.namesrv_id AND h.topic = l.topic AND h.until_us > l.since_us
    WHERE EXISTS (FROM served AS v WHERE v.namesrv_id = l.namesrv_id AND v.from_us <= l.since_us + 1000000 AND v.until_us >= l.since_us)
    GROUP BY ALL
    HAVING least(l.until_us, coalesce(back_us, 9223372036854775807)) - l.since_us >= $diverged_us
)

SELECT
    namesrv_id, 'critical' AS severity, cluster_name AS subject, make_timestamptz(min(since_us)) AS from_time,
    if(
        max(least(until_us, coalesce(back_us, 9223372036854775807))) = 9223372036854775807, NULL,
        make_timestamptz(max(least(until_us, coalesce(back_us, 9223372036854775807))))
    ) AS to_time,
    namesrv_id || ' and ' || array_to_string(list_sort(list_distinct(flatten(list(known_to))))[1:10], ', ')
        || ' are of ' || cluster_name || ' and share no broker; refused ' || sum(answers) || ' times (up to ' || max(clients)
        || ' hosts): ' || array_to_string(list_sort(list(DISTINCT topic))[1:10], ', ') AS detail,
    list(event_id ORDER BY since_us)[1:19] || [arg_max(if(back_us < until_us, back_by, coalesce(lost_by, back_by)), since_us)] AS evidence,
    list_sort(list_distinct(flatten(list(broker_names)))) AS broker_names, list_sort(list(DISTINCT topic)) AS topic_names
FROM ended
GROUP BY namesrv_id, cluster_name

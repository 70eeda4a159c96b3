CREATE OR REPLACE TEMPORARY VIEW whole_routes (
    namesrv_id COMMENT 'Name server',
    topic COMMENT 'Topic',
    seq COMMENT 'Position of the event that changed the route',
    effect_time COMMENT 'When it changed',
    caused_by COMMENT 'event_id that changed it',
    change COMMENT 'appeared, changed, vanished, or learned: an answer or a snapshot showed what had been so before',
    route_before COMMENT 'Route before as JSON, lists sorted by broker name; NULL if there was none',
    route_after COMMENT 'Route after as JSON; NULL if there is none',
    day COMMENT 'UTC date of effect_time'
)
COMMENT 'Every change of a route, with the whole route before and after: ask for few topics, a wide one has a long text for each change. Put together from the first recorded change on: what a setting changed over midnight shows with the next change of that part'
AS
WITH parts AS (
    SELECT
        namesrv_id, topic, seq, p.part, p.name, p.text,
        lead(seq) OVER (PARTITION BY namesrv_id, topic, p.part, p.name ORDER BY seq) AS until
    FROM (SELECT namesrv_id, topic, seq, explode(parts) AS p FROM route_changes)
), routes AS (
    SELECT
        c.namesrv_id, c.topic, c.seq, c.effect_time, c.caused_by, c.change, c.day,
        concat(
            '{"brokerDatas":[',
            array_join(transform(array_sort(collect_list(struct(coalesce(p.name, '') AS name, p.text AS text))
                FILTER (WHERE p.part = 'brokerDatas')), e -> e.text), ','),
            '],"filterServerTable":{',
            array_join(transform(array_sort(collect_list(struct(coalesce(p.name, '') AS name, p.text AS text))
                FILTER (WHERE p.part = 'filterServerTable')), e -> e.text), ','),
            '}',
            coalesce(max(IF(p.part = 'orderTopicConf', concat(',"orderTopicConf":', p.text), NULL)), ''),
            ',"queueDatas":[',
            array_join(transform(array_sort(collect_list(struct(coalesce(p.name, '') AS name, p.text AS text))
                FILTER (WHERE p.part = 'queueDatas')), e -> e.text), ','),
            ']',
            IF(
                max(p.part) = 'topicQueueMappingByBroker',
                concat(
                    ',"topicQueueMappingByBroker":{',
                    array_join(transform(array_sort(collect_list(struct(coalesce(p.name, '') AS name, p.text AS text))
                        FILTER (WHERE p.part = 'topicQueueMappingByBroker')), e -> e.text), ','),
                    '}'
                ),
                ''
            ),
            '}'
        ) AS route
    FROM route_changes AS c
    JOIN parts AS p
        ON p.namesrv_id = c.namesrv_id AND p.topic = c.topic AND p.seq <= c.seq AND (p.until IS NULL OR p.until > c.seq)
    WHERE p.text IS NOT NULL
    GROUP BY c.namesrv_id, c.topic, c.seq, c.effect_time, c.caused_by, c.change, c.day
    UNION ALL
    SELECT namesrv_id, topic, seq, effect_time, caused_by, change, day, CAST(NULL AS STRING)
    FROM route_changes
    WHERE groups_after = 0
)
SELECT
    namesrv_id, topic, seq, effect_time, caused_by, change,
    lag(route) OVER (PARTITION BY namesrv_id, topic ORDER BY seq), route, day
FROM routes

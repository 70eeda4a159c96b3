-- Every change of a route, with the whole route before and after. Ask for few topics: the text of a large route is long. The
-- route is assembled from the first recorded change on; what a setting changed over midnight shows at the next change of that
-- part
-- columns: namesrv_id, topic
-- column seq: Position of the event that changed the route
-- column effect_time: When it changed
-- column caused_by: event_id that changed it
-- column change: appeared, changed, vanished, or learned (an answer showed a state that had begun earlier)
-- column route_before: Route before as JSON, lists sorted by broker name; NULL if there was none
-- column route_after: Route after as JSON; NULL if there is none
-- columns: day
WITH changes AS (
    SELECT namesrv_id, topic, seq, p.part, p.name, struct(p.text AS text) AS content
    FROM (SELECT namesrv_id, topic, seq, explode(parts) AS p FROM route_changes)
), states AS (
    -- for each change, the last known text of every part that the topic ever had
    SELECT
        c.namesrv_id, c.topic, c.seq, k.part, coalesce(k.name, '') AS name,
        last_value(t.content) IGNORE NULLS OVER (PARTITION BY c.namesrv_id, c.topic, k.part, k.name ORDER BY c.seq).text AS text
    FROM route_changes AS c
    JOIN (SELECT DISTINCT namesrv_id, topic, part, name FROM changes) AS k ON k.namesrv_id = c.namesrv_id AND k.topic = c.topic
    LEFT JOIN changes AS t
        ON t.namesrv_id = c.namesrv_id AND t.topic = c.topic AND t.seq = c.seq AND t.part = k.part AND t.name <=> k.name
), routes AS (
    SELECT c.namesrv_id, c.topic, c.seq, c.effect_time, c.caused_by, c.change, c.day, c.groups_after, r.parts
    FROM route_changes AS c
    JOIN (
        SELECT
            namesrv_id, topic, seq,
            array_sort(collect_list(struct(part, name, text)) FILTER (WHERE text IS NOT NULL)) AS parts
        FROM states
        GROUP BY namesrv_id, topic, seq
    ) AS r ON r.namesrv_id = c.namesrv_id AND r.topic = c.topic AND r.seq = c.seq
), texts AS (
    SELECT
        namesrv_id, topic, seq, effect_time, caused_by, change, day,
        IF(groups_after = 0, NULL, {route_text(parts)}) AS route
    FROM routes
)
SELECT
    namesrv_id, topic, seq, effect_time, caused_by, change,
    lag(route) OVER (PARTITION BY namesrv_id, topic ORDER BY seq), route, day
FROM texts

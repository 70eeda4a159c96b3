-- Number of keys that each map had during the day, and at its end; only maps that may have grown.
SELECT map, count(*) AS ever, count(*) FILTER (stays) AS now
FROM (SELECT {map} AS map, {key} AS key, bool_or(closed_by IS NULL) AS stays FROM history WHERE {is_key} GROUP BY ALL)
GROUP BY map HAVING count(*) >= $room

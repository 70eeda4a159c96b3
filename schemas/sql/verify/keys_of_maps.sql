-- How many keys maps had in the day, and how many of them they have at its end; of maps that may have grown.
SELECT map, count(*) AS ever, count(*) FILTER (stays) AS now
FROM (SELECT {map} AS map, {key} AS key, bool_or(closed_by IS NULL) AS stays FROM history WHERE {is_key} GROUP BY ALL)
GROUP BY map HAVING count(*) >= $room
